import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Collections;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/** A node with HTTP as its only plugin: Maven Central has OpenSearch's jars, but not the files of its modules. */
public class OpenSearchNode extends Node {
    OpenSearchNode(Environment environment) {
        super(environment, Collections.singletonList(Netty4Plugin.class), false);
    }

    public static void main(String[] args) throws Exception {
        Path folder = Paths.get(args[0]);
        Settings settings = Settings.builder().loadFromPath(folder.resolve("opensearch.yml")).build();
        final Node node = new OpenSearchNode(
            InternalSettingsPreparer.prepareEnvironment(settings, Collections.emptyMap(), folder, null)
        );
        Runtime.getRuntime().addShutdownHook(new Thread() {
            public void run() {
                try {
                    node.close();
                } catch (Exception error) {
                    error.printStackTrace();
                }
            }
        });
        node.start();
        System.out.println("OpenSearch has started");
        Thread.currentThread().join();
    }
}
