package nmagent.auxhost;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** Frames to the agent. Without an agent there is nobody to serve, so the process ends. */
final class Answers {
  private static final int HELLO = 1;
  private static final int BEGINS = 2;
  private static final int STARTED = 3;
  private static final int FAILED = 4;
  private static final int DONE = 5;
  private static final int STOPPED = 6;
  private static final int METRICS = 7;

  /** Longest text of a failure, in characters. */
  private static final int TEXT_MAX = 8_192;

  private final OutputStream out;

  Answers(OutputStream out) {
    this.out = out;
  }

  private interface Fields {
    void write(DataOutputStream to) throws IOException;
  }

  private void send(int type, Fields fields) {
    try {
      ByteArrayOutputStream frame = new ByteArrayOutputStream();
      DataOutputStream data = new DataOutputStream(frame);
      data.writeInt(0);
      data.writeByte(type);
      fields.write(data);
      byte[] bytes = frame.toByteArray();
      ByteBuffer.wrap(bytes).putInt(0, bytes.length - 4);
      synchronized (this) {
        out.write(bytes);
        out.flush();
      }
    } catch (IOException gone) {
      Runtime.getRuntime().halt(0);
    }
  }

  private static void string(DataOutputStream to, String text) throws IOException {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    to.writeInt(bytes.length);
    to.write(bytes);
  }

  void hello(int magic, int protocol, String javaVersion) {
    send(HELLO, to -> {
      to.writeInt(magic);
      to.writeInt(protocol);
      string(to, javaVersion);
    });
  }

  /** A service begins to start: if the process ends now, it is this one's doing. */
  void begins(int service) {
    send(BEGINS, to -> to.writeInt(service));
  }

  /** A service runs, with metadata or without. */
  void started(int service, ByteBuffer metadata) {
    send(STARTED, to -> {
      to.writeInt(service);
      to.writeBoolean(metadata != null);
      ByteBuffer copy = metadata == null ? ByteBuffer.allocate(0) : metadata.duplicate();
      byte[] bytes = new byte[copy.remaining()];
      copy.get(bytes);
      to.writeInt(bytes.length);
      to.write(bytes);
    });
  }

  void failed(int service, Throwable error) {
    StringWriter text = new StringWriter();
    Throwable cause = error;
    for (int depth = 0; cause != null && depth < 8; depth++) {
      text.append(depth == 0 ? "" : ": ").append(cause.toString());
      cause = cause.getCause() == cause ? null : cause.getCause();
    }
    String shown = text.toString();
    String cut = shown.length() > TEXT_MAX ? shown.substring(0, TEXT_MAX) : shown;
    error.printStackTrace();
    send(FAILED, to -> {
      to.writeInt(service);
      string(to, cut);
    });
  }

  void done(int service, long sequence) {
    send(DONE, to -> {
      to.writeInt(service);
      to.writeLong(sequence);
    });
  }

  void metrics(Map<String, Double> series) {
    send(METRICS, to -> {
      to.writeInt(series.size());
      for (Map.Entry<String, Double> each : series.entrySet()) {
        string(to, each.getKey());
        to.writeDouble(each.getValue());
      }
    });
  }

  void stopped() {
    send(STOPPED, to -> { });
  }
}
