package nmagent.auxhost;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.ApplicationClassLoader;
import org.apache.hadoop.yarn.server.api.AuxiliaryLocalPathHandler;
import org.apache.hadoop.yarn.server.api.AuxiliaryService;

/**
 * One service. Each of its methods runs with its class loader as that of the thread, as with
 * Hadoop's {@code AuxiliaryServiceWithCustomClassLoader}: so it finds its own files.
 */
final class HostedService {
  String name;
  String className;
  /** Class path, colons between; empty: the host's own. */
  String classPath;
  String[] systemClasses;
  /** Folder that outlives restarts; empty: there is none. */
  String recoveryFolder;

  private final int index;
  private final Answers answers;
  private final ExecutorService events;
  private ClassLoader loader;
  private volatile AuxiliaryService service;

  interface Call {
    void make(AuxiliaryService service);
  }

  HostedService(int index, Answers answers) {
    this.index = index;
    this.answers = answers;
    events = Executors.newSingleThreadExecutor(work -> {
      Thread thread = new Thread(work, "events-" + index);
      thread.setDaemon(true);
      return thread;
    });
  }

  /** Loads, initialises and starts the service. Returns whether it runs. */
  boolean start(Configuration conf, AuxiliaryLocalPathHandler paths) {
    answers.begins(index);
    Thread thread = Thread.currentThread();
    ClassLoader before = thread.getContextClassLoader();
    try {
      loader = classPath.isEmpty() ? before : new ApplicationClassLoader(classPath, before,
          systemClasses.length == 0 ? null : Arrays.asList(systemClasses));
      thread.setContextClassLoader(loader);
      Configuration own = new Configuration(conf);
      own.setClassLoader(loader);
      Class<?> loaded = Class.forName(className, true, loader);
      if (!AuxiliaryService.class.isAssignableFrom(loaded)) {
        throw new ClassCastException(className + " is no AuxiliaryService");
      }
      java.lang.reflect.Constructor<?> constructor = loaded.getDeclaredConstructor();
      constructor.setAccessible(true);
      AuxiliaryService made = (AuxiliaryService) constructor.newInstance();
      made.setAuxiliaryLocalPathHandler(paths);
      if (!recoveryFolder.isEmpty()) {
        made.setRecoveryPath(new Path(recoveryFolder));
      }
      made.init(own);
      made.start();
      ByteBuffer metadata = made.getMetaData();
      service = made;
      answers.started(index, metadata);
      return true;
    } catch (Throwable error) {
      answers.failed(index, error);
      return false;
    } finally {
      thread.setContextClassLoader(before);
    }
  }

  /** Makes a call after those before it. What the service throws is logged, as in Hadoop. */
  void event(long sequence, Call call) {
    events.execute(() -> {
      Thread.currentThread().setContextClassLoader(loader);
      try {
        call.make(service);
      } catch (Throwable error) {
        System.err.println("WARN auxiliary service " + name + " refuses an event: " + error);
      }
      answers.done(index, sequence);
    });
  }

  void stop() {
    AuxiliaryService running = service;
    if (running == null) {
      return;
    }
    try {
      Thread.currentThread().setContextClassLoader(loader);
      running.stop();
    } catch (Throwable error) {
      System.err.println("WARN auxiliary service " + name + " does not stop well: " + error);
    }
  }
}
