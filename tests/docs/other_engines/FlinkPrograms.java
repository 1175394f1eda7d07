// Runs the programs of Flink of docs/coming-from.md, which are put in the place of the last comment, in a
// local cluster, over rows as in rows.py, and prints what they find: a line for each row.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFilterFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.*;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.*;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.async.*;
import org.apache.flink.streaming.api.functions.co.*;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.*;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

public class FlinkPrograms {
    public static class Click { public String page, user; public long at; }
    public static class Order { public int id; public long at; }
    public static class Payment { public int order, cents; public long at; }
    public static class Sale { public int id; public String currency; public double amount; }
    public static class Rate { public String currency; public double rate; }
    public static class Beat { public String host; public long at; }
    public static class Event { public String id; public long at; public String toString() { return id; } }
    public static class Transfer { public int customer, cents; }

    static final StreamExecutionEnvironment ENV = StreamExecutionEnvironment.getExecutionEnvironment();

    static Click click(String page, String user, int second) {
        Click click = new Click();
        click.page = page;
        click.user = user;
        click.at = second * 1000L;
        return click;
    }

    static Order order(int id, int second) {
        Order order = new Order();
        order.id = id;
        order.at = second * 1000L;
        return order;
    }

    static Payment payment(int id, int cents, int second) {
        Payment payment = new Payment();
        payment.order = id;
        payment.cents = cents;
        payment.at = second * 1000L;
        return payment;
    }

    static Sale sale(int id, String currency) {
        Sale sale = new Sale();
        sale.id = id;
        sale.currency = currency;
        sale.amount = 50;
        return sale;
    }

    static Beat beat(String host, int second) {
        Beat beat = new Beat();
        beat.host = host;
        beat.at = second * 1000L;
        return beat;
    }

    static Event event(String id) {
        Event event = new Event();
        event.id = id;
        return event;
    }

    static Transfer transfer(int customer, int cents) {
        Transfer transfer = new Transfer();
        transfer.customer = customer;
        transfer.cents = cents;
        return transfer;
    }

    /** Row by row, so that watermarks, which come by the clock, come between them. */
    static <T> DataStream<T> slowly(Class<T> kind, int waitMs, T... rows) {
        return ENV.fromData(List.of(rows)).map(row -> {
            Thread.sleep(waitMs);
            return row;
        }).returns(kind);
    }

    static void print(String program, DataStream<?> rows) throws Exception {
        try (var found = rows.executeAndCollect()) {
            while (found.hasNext()) {
                System.out.println(program + " " + found.next());
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        ENV.setParallelism(1);
        ENV.getConfig().setAutoWatermarkInterval(1);
        print("counts", counts(ENV.fromData("to be", "to do")));
        Click[] clicks = {click("home", "ada", 10), click("home", "bo", 20), click("home", "ada", 70),
            click("home", "bo", 71), click("home", "eve", 30)};
        var windows = perMinute(slowly(Click.class, 100, clicks));
        print("late", late(windows).map(click -> click.user).returns(Types.STRING));
        print("perMinute", perMinute(slowly(Click.class, 100, clicks)));
        print("sessions", sessions(slowly(Click.class, 0, click("home", "ada", 0), click("cart", "ada", 1200),
            click("home", "ada", 5400)).assignTimestampsAndWatermarks(
                WatermarkStrategy.<Click>forMonotonousTimestamps().withTimestampAssigner((row, at) -> row.at))));
        print("paid", paid(
            slowly(Order.class, 0, order(1, 0), order(2, 60)).assignTimestampsAndWatermarks(
                WatermarkStrategy.<Order>forMonotonousTimestamps().withTimestampAssigner((row, at) -> row.at)),
            slowly(Payment.class, 0, payment(1, 300, 1200), payment(2, 500, 7200)).assignTimestampsAndWatermarks(
                WatermarkStrategy.<Payment>forMonotonousTimestamps().withTimestampAssigner((row, at) -> row.at))));
        Rate rate = new Rate();
        rate.currency = "SEK";
        rate.rate = 0.1;
        print("inEuros", inEuros(slowly(Sale.class, 2000, sale(1, "SEK"), sale(2, "NOK")),
            slowly(Rate.class, 0, rate)));
        print("silent", silent(slowly(Beat.class, 0, beat("db1", 0), beat("db2", 0), beat("db1", 180))
            .assignTimestampsAndWatermarks(
                WatermarkStrategy.<Beat>forMonotonousTimestamps().withTimestampAssigner((row, at) -> row.at))));
        print("once", once(slowly(Event.class, 0, event("a"), event("b"), event("a"))));
        print("named", named(ENV.fromData(1, 2)));
        print("totals", totals(slowly(Transfer.class, 0, transfer(1, 300), transfer(1, 200), transfer(2, 500))));
        largeOnes(ENV, "localhost:1"); // Built, and not run.
    }

    // PROGRAMS
}
