//! An application with executors' files in a folder, and the recorded requests for them.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dir_handle::DirHandle;
use tempfile::TempDir;

use crate::files::{ApplicationFolder, place};
use crate::{
    Application, ApplicationSecret, Applications, RunningSparkShuffle, SparkShuffleConfig,
    SparkShuffleServer,
};

/// Application of the recorded vectors.
pub(crate) const APPLICATION: &str = "application_1700000000000_0009";

/// Path of the application's folder, as its containers know it: that of the recorded vectors.
const PATH: &str = "/d";

/// Local directories of the recorded executor.
const DIRS: [&str; 2] = ["blockmgr-a", "blockmgr-b"];

/// Deadline for an answer of a server.
const DEADLINE: Duration = Duration::from_secs(20);

/// Registration of the executor 1, as Spark's client sent it.
pub(crate) const REGISTER: &str = "000000000000009b035ea69cc74cc382da00000086 02 \
    0000001e6170706c69636174696f6e5f313730303030303030303030305f30303039 0000000131 00000002 \
    0000000d2f642f626c6f636b6d67722d61 0000000d2f642f626c6f636b6d67722d62 00000040 \
    000000306f72672e6170616368652e737061726b2e73687566666c652e736f72742e536f727453687566666c654d61\
    6e61676572";

/// Answer to [`REGISTER`].
pub(crate) const REGISTERED: &str = "0000000000000015045ea69cc74cc382da00000000";

/// A local directory with an application's folder, and the table that has the application.
pub(crate) struct Lab {
    pub(crate) base: TempDir,
    pub(crate) applications: Arc<Applications>,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let lab = Self {
            base: tempfile::tempdir().unwrap(),
            applications: Arc::new(Applications::new(None)),
        };
        fs::create_dir(lab.folder()).unwrap();
        for dir in DIRS {
            fs::create_dir(lab.folder().join(dir)).unwrap();
        }
        lab.bring(None);
        lab.write_map(5, &["m5r0", "m5r1!", ""]);
        lab.write_map(6, &["m6r0", "m6r1", "m6r2"]);
        lab.write("rdd_4_0", b"m5r0");
        lab.write("rdd_4_1", b"more");
        lab
    }

    /// Folder of the application.
    pub(crate) fn folder(&self) -> PathBuf {
        self.base.path().join("application")
    }

    /// Brings the application's data, as a container does.
    pub(crate) fn bring(&self, secret: Option<&str>) {
        let root = Arc::new(DirHandle::open_ambient(self.base.path()).unwrap());
        let folder = ApplicationFolder {
            root,
            below: "application".into(),
            path: PATH.into(),
        };
        let application = Application {
            user: "joe".into(),
            secret: secret.map(|text| ApplicationSecret(text.as_bytes().to_vec())),
            is_recovered: true,
            folders: vec![folder],
        };
        self.applications.initialize(APPLICATION, application);
    }

    /// Returns where the executor has a file of this name.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let (dir, sub) = place(name, DIRS.len(), 64);
        self.folder().join(DIRS[dir]).join(sub).join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Writes a map's output of the shuffle 3: data, index and checksums.
    pub(crate) fn write_map(&self, map: u32, partitions: &[&str]) {
        let mut offset = 0_i64;
        let mut index = offset.to_be_bytes().to_vec();
        let mut checksums = Vec::new();
        for partition in partitions {
            offset += i64::try_from(partition.len()).unwrap();
            index.extend(offset.to_be_bytes());
            let checksum = adler2::adler32_slice(partition.as_bytes());
            checksums.extend(i64::from(checksum).to_be_bytes());
        }
        let name = format!("shuffle_3_{map}_0");
        self.write(&format!("{name}.index"), &index);
        self.write(&format!("{name}.data"), partitions.concat().as_bytes());
        self.write(&format!("{name}.checksum.ADLER32"), &checksums);
    }

    /// Starts a server of the application on a port that the system chooses.
    pub(crate) fn serve(&self, config: SparkShuffleConfig) -> RunningSparkShuffle {
        let config = SparkShuffleConfig { port: 0, ..config };
        let server = SparkShuffleServer::bind(config).unwrap();
        let refusals = Arc::default();
        server
            .start(Arc::clone(&self.applications), refusals)
            .unwrap()
    }
}

/// Connects to a server.
pub(crate) fn connect(server: &RunningSparkShuffle) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Reads hexadecimal digits with blanks between them.
pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .map(|digit| u8::try_from(digit).unwrap())
        .collect();
    assert_eq!(digits.len() % 2, 0, "{hex}");
    digits.chunks(2).map(|it| it[0] << 4 | it[1]).collect()
}

/// Puts the length before the rest of a frame.
pub(crate) fn framed(rest: &[u8]) -> Vec<u8> {
    let length = rest.len() as u64 + 8;
    [&length.to_be_bytes(), rest].concat()
}

/// A message in a frame, with the number of its request.
pub(crate) fn rpc(id: i64, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    let head = [&[3][..], &id.to_be_bytes(), &length.to_be_bytes()].concat();
    framed(&[&head, message].concat())
}

/// A string with its length.
pub(crate) fn text(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap();
    [&length.to_be_bytes(), text.as_bytes()].concat()
}
