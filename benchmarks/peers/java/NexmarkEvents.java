import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;

/**
 * The events of `benchmarks/nexmark/events.py`: an event depends on its number alone. Strings come from
 * pools, whose files Rheos writes. Of 50 events the first is a person, three are auctions, the rest bids.
 */
final class NexmarkEvents extends RichParallelSourceFunction<RowData> {
    /** The columns of an event, in Flink's SQL. */
    static final String COLUMNS =
            "event_type INT, date_time TIMESTAMP(3), "
                    + "person ROW<id BIGINT, name STRING, email STRING, credit_card STRING, city STRING, "
                    + "state STRING, extra STRING>, "
                    + "auction ROW<id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, "
                    + "reserve BIGINT, expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING>, "
                    + "bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, "
                    + "extra STRING>";

    private static final long BASE_MS = 1_767_268_800_000L;
    private static final int TOTAL = 50;
    private static final int AUCTIONS = 3;
    private static final long FIRST_ID = 1_000;
    private static final int HOT_EVERY = 100;
    private static final int IN_FLIGHT = 100;
    private static final int ACTIVE = 1_000;
    private static final int LEAD = 10;
    private static final int LARGE_CHANNELS = 4;
    private static final int CHANNELS = 10_000;

    private final String pools;
    private final long events;
    private final long warmUp;
    private final double perSecond;
    private volatile boolean running = true;
    private transient StringData[] names;
    private transient StringData[] emails;
    private transient StringData[] creditCards;
    private transient StringData[] cities;
    private transient StringData[] states;
    private transient StringData[] items;
    private transient StringData[] descriptions;
    private transient StringData[] channels;
    private transient StringData[] urls;
    private transient StringData[] ofPersons;
    private transient StringData[] ofAuctions;
    private transient StringData[] ofBids;

    NexmarkEvents(String pools, long events, long warmUp, double perSecond) {
        this.pools = pools;
        this.events = events;
        this.warmUp = warmUp;
        this.perSecond = perSecond;
    }

    @Override
    public void open(OpenContext ctx) throws IOException {
        names = pool("name");
        emails = pool("email");
        creditCards = pool("credit card");
        cities = pool("city");
        states = pool("state");
        items = pool("item");
        descriptions = pool("description");
        channels = pool("channel");
        urls = pool("url");
        ofPersons = pool("person");
        ofAuctions = pool("auction");
        ofBids = pool("bid");
    }

    private StringData[] pool(String name) throws IOException {
        return Files.readAllLines(Path.of(pools, name + ".txt")).stream()
                .map(text -> StringData.fromBytes(text.getBytes(StandardCharsets.UTF_8)))
                .toArray(StringData[]::new);
    }

    @Override
    public void run(SourceContext<RowData> ctx) {
        int subtasks = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
        boolean begun = false;
        long id = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        for (; id < events && running; id += subtasks) {
            if (id >= warmUp && !begun) {
                Nexmark.begin();
                begun = true;
            }
            synchronized (ctx.getCheckpointLock()) {
                ctx.collect(event(id));
            }
        }
    }

    @Override
    public void cancel() {
        running = false;
    }

    private RowData event(long id) {
        int offset = (int) (id % TOTAL);
        int type = offset == 0 ? 0 : offset <= AUCTIONS ? 1 : 2;
        long atMs = atMs(id);
        GenericRowData row = new GenericRowData(5);
        row.setField(0, type);
        row.setField(1, TimestampData.fromEpochMillis(atMs));
        row.setField(2 + type, type == 0 ? person(id) : type == 1 ? auction(id, atMs) : bid(id));
        return row;
    }

    private RowData person(long id) {
        long word = word(id, 0);
        long other = word(id, 1);
        return GenericRowData.of(
                lastPerson(id) + FIRST_ID,
                drawn(names, word, 0),
                drawn(emails, word, 20),
                drawn(creditCards, word, 40),
                drawn(cities, other, 0),
                drawn(states, other, 20),
                drawn(ofPersons, other, 40));
    }

    private RowData auction(long id, long atMs) {
        long word = word(id, 0);
        long other = word(id, 1);
        long initial = price(word(id, 2));
        long last = lastPerson(id);
        long seller =
                below(word, 0, 4) > 0 ? last / HOT_EVERY * HOT_EVERY : somePerson(last, word, 20);
        long horizonMs = atMs(id + IN_FLIGHT * TOTAL / AUCTIONS) - atMs;
        return GenericRowData.of(
                lastAuction(id) + FIRST_ID,
                drawn(items, other, 0),
                drawn(descriptions, other, 20),
                initial,
                initial + price(word(id, 3)),
                TimestampData.fromEpochMillis(atMs + 1 + below(word, 40, Math.max(2 * horizonMs, 1))),
                seller + FIRST_ID,
                10 + below(word(id, 4), 0, 5),
                drawn(ofAuctions, other, 40));
    }

    private RowData bid(long id) {
        long word = word(id, 0);
        long drawn = word(id, 1);
        long last = lastAuction(id);
        long person = lastPerson(id);
        long least = Math.max(last - IN_FLIGHT, 0);
        long auction =
                below(word, 0, 2) > 0
                        ? last / HOT_EVERY * HOT_EVERY
                        : least + below(word, 20, last - least + 1 + LEAD);
        long bidder =
                below(drawn, 0, 4) > 0
                        ? person / HOT_EVERY * HOT_EVERY + 1
                        : somePerson(person, word, 40);
        long any = below(drawn, 20, 2 * CHANNELS);
        int channel = (int) (any < CHANNELS ? LARGE_CHANNELS + any : any % LARGE_CHANNELS);
        return GenericRowData.of(
                auction + FIRST_ID,
                bidder + FIRST_ID,
                price(word(id, 2)),
                channels[channel],
                urls[channel],
                drawn(ofBids, drawn, 40));
    }

    private long atMs(long id) {
        return BASE_MS + (long) (id * (1_000 / perSecond));
    }

    private static long lastPerson(long id) {
        return id / TOTAL;
    }

    private static long lastAuction(long id) {
        return id / TOTAL * AUCTIONS + Math.min(id % TOTAL, AUCTIONS) - 1;
    }

    private static long somePerson(long last, long word, int shift) {
        long active = Math.min(last + 1, ACTIVE);
        return last + 1 - active + below(word, shift, active + LEAD);
    }

    private static long word(long id, int number) {
        long word = (id * 8 + number) * 0x9E3779B97F4A7C15L;
        word = (word ^ (word >>> 30)) * 0xBF58476D1CE4E5B9L;
        word = (word ^ (word >>> 27)) * 0x94D049BB133111EBL;
        return word ^ (word >>> 31);
    }

    private static long below(long word, int shift, long bound) {
        return ((word >>> shift) & 0xFFFFF) * bound >> 20;
    }

    private static long price(long word) {
        return (long) Math.rint(Math.pow(10, (word >>> 11) * 0x1p-53 * 6 + 2));
    }

    private static StringData drawn(StringData[] pool, long word, int shift) {
        return pool[(int) below(word, shift, pool.length)];
    }
}
