import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.util.concurrent.CountDownLatch;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * A ResourceManager and NodeManagers in this process, whose containers are processes as on any YARN. Runs until it is killed.
 *
 * Arguments: the directory for yarn-site.xml, which clients need as HADOOP_CONF_DIR; how many NodeManagers.
 */
public class Yarn {
  public static void main(String[] arguments) throws Exception {
    YarnConfiguration configuration = new YarnConfiguration();
    // The default one needs a file of its own.
    configuration.set(
        "yarn.resourcemanager.scheduler.class",
        "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler");
    configuration.set("yarn.nodemanager.disk-health-checker.enable", "false");
    configuration.set("yarn.nodemanager.vmem-check-enabled", "false");
    configuration.set("yarn.nodemanager.pmem-check-enabled", "false");
    configuration.set("yarn.scheduler.minimum-allocation-mb", "128");
    // The mark by which tests find their processes goes on to containers.
    configuration.set("yarn.nodemanager.env-whitelist", "JAVA_HOME,E2E_MARK");
    configuration.set("yarn.scheduler.maximum-allocation-vcores", "64");
    configuration.set("yarn.nodemanager.resource.cpu-vcores", "64");
    MiniYARNCluster cluster = new MiniYARNCluster("yarn", Integer.parseInt(arguments[1]), 1, 1);
    cluster.init(configuration);
    cluster.start();
    if (!cluster.waitForNodeManagersToConnect(60_000)) {
      throw new IllegalStateException("the NodeManagers have not connected");
    }
    File site = new File(arguments[0], "yarn-site.xml.new");
    try (OutputStream out = new FileOutputStream(site)) {
      cluster.getConfig().writeXml(out);
    }
    site.renameTo(new File(arguments[0], "yarn-site.xml"));
    new CountDownLatch(1).await();
  }
}
