import java.net.InetSocketAddress;
import java.net.Socket;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.master.HMaster;
import org.apache.hadoop.hbase.master.HMasterCommandLine;
import org.apache.hadoop.hbase.thrift.ThriftServer;
import org.apache.hadoop.util.ToolRunner;

/** ZooKeeper, master, region server and Thrift gateway of HBase in one process. */
public class HbaseNode {
    static void end(String what, Throwable reason) {
        System.out.println(what + " has failed");
        reason.printStackTrace(System.out);
        Runtime.getRuntime().halt(1);
    }

    /** Arguments: host and port of the gateway, and then settings, "name=value". */
    public static void main(final String[] args) throws Exception {
        final Configuration settings = HBaseConfiguration.create();
        for (int i = 2; i < args.length; i++) {
            int at = args[i].indexOf('=');
            settings.set(args[i].substring(0, at), args[i].substring(at + 1));
        }
        Thread master = new Thread("start-master") {
            public void run() {
                try {
                    ToolRunner.run(settings, new HMasterCommandLine(HMaster.class), new String[] {"start"});
                    // The gateway would try for long to reach a master that has ended.
                    Runtime.getRuntime().halt(0);
                } catch (Throwable error) {
                    end("the master", error);
                }
            }
        };
        master.start();
        Connection connection = ConnectionFactory.createConnection(settings);
        Admin admin = connection.getAdmin();
        admin.listNamespaceDescriptors();
        connection.close();
        Thread gateway = new Thread("start-gateway") {
            public void run() {
                try {
                    String[] options = {"start", "--bind", args[0], "--port", args[1], "--infoport", "-1"};
                    ToolRunner.run(settings, new ThriftServer(settings), options);
                } catch (Throwable error) {
                    end("the gateway", error);
                }
            }
        };
        gateway.start();
        while (true) {
            Socket probe = new Socket();
            try {
                probe.connect(new InetSocketAddress(args[0], Integer.parseInt(args[1])), 1000);
                break;
            } catch (java.io.IOException error) {
                Thread.sleep(50);
            } finally {
                probe.close();
            }
        }
        System.out.println("the Thrift gateway has started");
    }
}
