package nmagent.auxhost;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.api.ApplicationInitializationContext;
import org.apache.hadoop.yarn.server.api.ApplicationTerminationContext;
import org.apache.hadoop.yarn.server.api.ContainerInitializationContext;
import org.apache.hadoop.yarn.server.api.ContainerTerminationContext;
import org.apache.hadoop.yarn.server.api.ContainerType;

/**
 * Runs auxiliary services of a NodeManager that are Java classes, each loaded as Hadoop's own
 * NodeManager loads it. The agent speaks over the socket that is standard input; the frames are
 * described in the crate {@code aux-host}. Standard output and error are the log.
 *
 * <p>One thread reads, each service has a thread of its own for events, and the agent keeps few
 * events of a service under way: so a slow service delays no other, and no queue grows here.
 */
public final class AuxHost {
  private static final int PROTOCOL = 1;
  private static final int MAGIC = 0x4e4d4148;
  private static final int FRAME_BYTES_MAX = 16 << 20;

  private static final int START = 1;
  private static final int FOLDERS = 2;
  private static final int APPLICATION_BEGINS = 3;
  private static final int APPLICATION_ENDS = 4;
  private static final int CONTAINER_BEGINS = 5;
  private static final int CONTAINER_ENDS = 6;
  private static final int STOP = 7;
  private static final int METRICS = 8;

  private final DataInputStream in;
  private final Answers answers;
  private final LocalPaths paths = new LocalPaths();
  private final List<HostedService> services = new ArrayList<>();

  private AuxHost(DataInputStream in, Answers answers) {
    this.in = in;
    this.answers = answers;
  }

  public static void main(String[] arguments) {
    // A socket is both: nothing else would reach the agent through standard output.
    DataInputStream in = new DataInputStream(new FileInputStream(FileDescriptor.in));
    Answers answers = new Answers(new FileOutputStream(FileDescriptor.in));
    System.setIn(new ByteArrayInputStream(new byte[0]));
    AuxHost host = new AuxHost(in, answers);
    try {
      answers.hello(MAGIC, PROTOCOL, System.getProperty("java.version"));
      host.serve();
    } catch (EOFException gone) {
      // The agent is gone. Another one starts services of its own, which need the ports.
      Runtime.getRuntime().halt(0);
    } catch (Throwable error) {
      System.err.println("FATAL the host of auxiliary services ends");
      error.printStackTrace();
      Runtime.getRuntime().halt(70);
    }
  }

  private void serve() throws IOException {
    while (true) {
      Fields fields = readFrame();
      switch (fields.type) {
        case START:
          start(fields);
          break;
        case FOLDERS:
          paths.set(fields.strings(), fields.strings());
          break;
        case STOP:
          stop();
          return;
        case METRICS:
          answers.metrics(Metrics.read());
          break;
        default:
          event(fields);
      }
    }
  }

  private Fields readFrame() throws IOException {
    int length = in.readInt();
    if (length < 1 || length > FRAME_BYTES_MAX) {
      throw new IOException("a frame of " + length + " bytes");
    }
    byte[] frame = new byte[length];
    in.readFully(frame);
    return new Fields(ByteBuffer.wrap(frame));
  }

  /** Starts the services one after another, on a thread beside the one that sees the agent's end. */
  private void start(Fields fields) {
    Configuration conf = new YarnConfiguration();
    for (int left = fields.count(); left > 0; left--) {
      conf.set(fields.string(), fields.string(), "the agent's configuration");
    }
    DefaultMetricsSystem.initialize("NodeManager");
    for (int left = fields.count(); left > 0; left--) {
      HostedService service = new HostedService(services.size(), answers);
      service.name = fields.string();
      service.className = fields.string();
      service.classPath = fields.string();
      service.systemClasses = fields.strings();
      service.recoveryFolder = fields.string();
      services.add(service);
    }
    Thread starter = new Thread(() -> {
      for (HostedService service : services) {
        if (!service.start(conf, paths)) {
          return;
        }
      }
    }, "start");
    starter.setDaemon(true);
    starter.start();
  }

  private void event(Fields fields) throws IOException {
    int type = fields.type;
    int index = fields.integer();
    long sequence = fields.longInteger();
    if (index < 0 || index >= services.size()) {
      throw new IOException("an event of service " + index);
    }
    HostedService service = services.get(index);
    switch (type) {
      case APPLICATION_BEGINS: {
        String user = fields.string();
        ApplicationId id = fields.application();
        ByteBuffer data = ByteBuffer.wrap(fields.bytes());
        service.event(sequence, it -> it.initializeApplication(
            new ApplicationInitializationContext(user, id, data)));
        break;
      }
      case APPLICATION_ENDS: {
        ApplicationId id = fields.application();
        service.event(sequence, it -> it.stopApplication(new ApplicationTerminationContext(id)));
        break;
      }
      case CONTAINER_BEGINS:
      case CONTAINER_ENDS: {
        String user = fields.string();
        ContainerId id = ContainerId.newContainerId(
            ApplicationAttemptId.newInstance(fields.application(), fields.integer()),
            fields.longInteger());
        Resource resource = Resource.newInstance(fields.longInteger(), fields.integer());
        ContainerType role =
            fields.flag() ? ContainerType.APPLICATION_MASTER : ContainerType.TASK;
        // Hadoop's NodeManager does not tell the execution type either.
        if (type == CONTAINER_BEGINS) {
          service.event(sequence, it -> it.initializeContainer(
              new ContainerInitializationContext(user, id, resource, role)));
        } else {
          service.event(sequence, it -> it.stopContainer(
              new ContainerTerminationContext(user, id, resource, role)));
        }
        break;
      }
      default:
        throw new IOException("a frame of type " + type);
    }
  }

  private void stop() {
    for (int index = services.size() - 1; index >= 0; index--) {
      services.get(index).stop();
    }
    answers.stopped();
    Runtime.getRuntime().halt(0);
  }

  /** Fields of a frame, in their order. */
  private static final class Fields {
    private final ByteBuffer left;
    private final int type;

    Fields(ByteBuffer frame) {
      left = frame;
      type = frame.get();
    }

    int integer() {
      return left.getInt();
    }

    long longInteger() {
      return left.getLong();
    }

    boolean flag() {
      return left.get() != 0;
    }

    int count() {
      return integer();
    }

    byte[] bytes() {
      int length = integer();
      if (length < 0 || length > left.remaining()) {
        throw new IllegalArgumentException("a field of " + length + " bytes");
      }
      byte[] bytes = new byte[length];
      left.get(bytes);
      return bytes;
    }

    String string() {
      return new String(bytes(), java.nio.charset.StandardCharsets.UTF_8);
    }

    String[] strings() {
      List<String> list = new ArrayList<>();
      for (int count = count(); count > 0; count--) {
        list.add(string());
      }
      return list.toArray(new String[0]);
    }

    ApplicationId application() {
      return ApplicationId.newInstance(longInteger(), integer());
    }
  }
}
