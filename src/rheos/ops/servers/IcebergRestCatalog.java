import java.io.File;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;
import org.apache.iceberg.Files;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/** Iceberg's reference implementation of a REST catalog, with tables in local files and SQLite. */
public class IcebergRestCatalog {
    /** Files of this machine: Iceberg's own FileIO for them needs Hadoop. */
    static class LocalFiles implements FileIO {
        public InputFile newInputFile(String path) {
            return Files.localInput(path);
        }

        public OutputFile newOutputFile(String path) {
            return Files.localOutput(path);
        }

        public void deleteFile(String path) {
            new File(path.replaceFirst("^file:(//)?", "")).delete();
        }
    }

    public static void main(String[] args) throws Exception {
        Map properties = new HashMap();
        properties.put("uri", "jdbc:sqlite:" + args[0] + "/catalog.db");
        properties.put("warehouse", args[0] + "/warehouse");
        properties.put("jdbc.schema-version", "V1");
        Function files = new Function() {
            public Object apply(Object settings) {
                return new LocalFiles();
            }
        };
        JdbcCatalog catalog = new JdbcCatalog(files, null, true);
        catalog.initialize("rheos", properties);
        ServletContextHandler handler = new ServletContextHandler();
        handler.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setHost(args[1]);
        connector.setPort(Integer.parseInt(args[2]));
        server.addConnector(connector);
        server.setHandler(handler);
        server.setStopAtShutdown(true);
        server.start();
        System.out.println("the REST catalog has started");
        server.join();
    }
}
