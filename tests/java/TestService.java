import java.io.FileWriter;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.server.api.ApplicationInitializationContext;
import org.apache.hadoop.yarn.server.api.ApplicationTerminationContext;
import org.apache.hadoop.yarn.server.api.AuxiliaryService;
import org.apache.hadoop.yarn.server.api.ContainerInitializationContext;
import org.apache.hadoop.yarn.server.api.ContainerTerminationContext;

/** An auxiliary service that writes what it learns into a file, or misbehaves as it is told. */
public class TestService extends AuxiliaryService {
  private String does;
  private String file;

  public TestService() {
    super("test");
  }

  private synchronized void tell(String line) {
    try (FileWriter log = new FileWriter(file, true)) {
      log.write(line + "\n");
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  @Override
  protected void serviceInit(Configuration conf) throws Exception {
    does = conf.get("test.service.does", "");
    file = conf.get("test.service.file");
    if (does.equals("exit")) {
      System.exit(7);
    }
    if (does.equals("throw")) {
      throw new IllegalStateException("words of the service");
    }
    ClassLoader loader = Thread.currentThread().getContextClassLoader();
    tell("pid " + ProcessHandle.current().pid());
    tell("init in " + loader.getClass().getSimpleName() + ", state in " + getRecoveryPath()
        + ", input " + System.in.read() + ", variables " + System.getenv().size());
    super.serviceInit(conf);
  }

  @Override
  protected void serviceStop() {
    tell("stop");
    if (does.equals("exit-at-stop")) {
      Runtime.getRuntime().halt(8);
    }
    while (does.equals("hang-at-stop")) {
      Thread.yield();
    }
  }

  @Override
  public void initializeApplication(ApplicationInitializationContext context) {
    tell("application " + context.getApplicationId() + " of " + context.getUser() + ": "
        + StandardCharsets.UTF_8.decode(context.getApplicationDataForService()));
    if (does.equals("refuse")) {
      throw new IllegalArgumentException("refused");
    }
  }

  @Override
  public void stopApplication(ApplicationTerminationContext context) {
    tell("end of " + context.getApplicationId());
  }

  @Override
  public void initializeContainer(ContainerInitializationContext context) {
    tell("container " + context.getContainerId() + " of " + context.getUser() + ": "
        + context.getResource().getMemorySize() + " " + context.getContainerType());
    while (does.equals("hang")) {
      Thread.yield();
    }
  }

  @Override
  public void stopContainer(ContainerTerminationContext context) {
    tell("end of " + context.getContainerId());
  }

  @Override
  public ByteBuffer getMetaData() {
    return does.equals("no-metadata") ? null : ByteBuffer.wrap(new byte[] {1, 2, 3});
  }

  /** A service that cannot be made. */
  public static class WithoutConstructor extends TestService {
    public WithoutConstructor(int number) {
    }
  }
}
