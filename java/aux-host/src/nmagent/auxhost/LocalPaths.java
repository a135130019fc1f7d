package nmagent.auxhost;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.hadoop.fs.Path;
import org.apache.hadoop.yarn.server.api.AuxiliaryLocalPathHandler;

/** The node's local folders: services read in those that are readable and write in good ones. */
final class LocalPaths implements AuxiliaryLocalPathHandler {
  private volatile String[] good = {};
  private volatile String[] readable = {};
  private final AtomicInteger next = new AtomicInteger();

  void set(String[] good, String[] readable) {
    this.good = good;
    this.readable = readable;
  }

  @Override
  public Path getLocalPathForRead(String path) throws IOException {
    for (Path found : getAllLocalPathsForRead(path)) {
      return found;
    }
    throw new IOException("Could not find " + path + " in any of the directories");
  }

  @Override
  public Iterable<Path> getAllLocalPathsForRead(String path) {
    List<Path> found = new ArrayList<>();
    for (String folder : readable) {
      File file = new File(folder, path);
      if (file.exists()) {
        found.add(new Path(file.getPath()));
      }
    }
    return found;
  }

  @Override
  public Path getLocalPathForWrite(String path) throws IOException {
    return getLocalPathForWrite(path, 0);
  }

  @Override
  public Path getLocalPathForWrite(String path, long size) throws IOException {
    String[] folders = good;
    for (int tried = 0; tried < folders.length; tried++) {
      File folder = new File(folders[Math.floorMod(next.getAndIncrement(), folders.length)]);
      if (folder.getUsableSpace() > size) {
        File file = new File(folder, path);
        File parent = file.getParentFile();
        if (parent.isDirectory() || parent.mkdirs()) {
          return new Path(file.getPath());
        }
      }
    }
    throw new IOException("No space available in any of the local directories.");
  }
}
