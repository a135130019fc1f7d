//! Aggregated log of an application on one node in Hadoop's indexed format: each file of a
//! container is a stream by itself, and an index at the end says where it begins. Pure over
//! [`Write`].
//!
//! ```text
//! id │ file │ file │ … │ index, a serialized Java object │ its length (32 bits) │ id
//! ```
//!
//! The id, the SHA-256 of the application's id, marks the end of a complete log. Source:
//! `LogAggregationIndexedFileController` of Hadoop 3.4. Hadoop appends the uploads of an
//! application that runs to one file, with an index of all at its end, until the file is large
//! enough for another one; here each upload has a file of its own, which readers take as another.
//! `tests/tests/hadoop/indexed_logs.rs` compares the bytes with what Hadoop's own writer makes.

use std::io::{self, Read, Write};

use flate2::write::ZlibEncoder;
use records::{ApplicationId, ContainerName, EpochMillis};
use sha2::{Digest as _, Sha256};

use crate::aggregated_log::{AccessType, Acls, Appended, copy};
use crate::java_objects::{Class, FIELDS_ONLY, HashTable, ObjectStream, WRITES_MORE};
use crate::tfile::Compression;

/// Version of the index (Hadoop: `LogAggregationIndexedFileController.VERSION`).
const VERSION: i32 = 1;

/// Bytes of memory for the index at most. Tenants decide how many files there are.
const INDEX_BYTES_MAX: usize = 32 * 1024 * 1024;

const STRING: &str = "Ljava/lang/String;";
const MAP: &str = "Ljava/util/Map;";
const LIST: &str = "Ljava/util/List;";

const LOGS_META: Class = Class {
    name: "org.apache.hadoop.yarn.logaggregation.filecontroller.ifile.LogAggregationIndexedFileController$IndexedLogsMeta",
    serial_version: 5_439_875_373,
    flags: FIELDS_ONLY,
    fields: &[
        (b'I', "version", ""),
        (b'L', "acls", MAP),
        (b'L', "compressName", STRING),
        (b'L', "logMetas", LIST),
        (b'L', "nodeId", STRING),
        (b'L', "user", STRING),
    ],
};

const UPLOAD_META: Class = Class {
    name: "org.apache.hadoop.yarn.logaggregation.filecontroller.ifile.LogAggregationIndexedFileController$IndexedPerAggregationLogMeta",
    serial_version: 3_929_298_383,
    flags: FIELDS_ONLY,
    fields: &[
        (b'J', "uploadTimeStamp", ""),
        (b'L', "logMetas", MAP),
        (b'L', "remoteNodeLogFileName", STRING),
    ],
};

const FILE_META: Class = Class {
    name: "org.apache.hadoop.yarn.logaggregation.filecontroller.ifile.LogAggregationIndexedFileController$IndexedFileLogMeta",
    serial_version: 1,
    flags: FIELDS_ONLY,
    fields: &[
        (b'J', "fileCompressedSize", ""),
        (b'J', "fileSize", ""),
        (b'J', "lastModifiedTime", ""),
        (b'J', "startIndex", ""),
        (b'L', "containerId", STRING),
        (b'L', "fileName", STRING),
    ],
};

const HASH_MAP: Class = Class {
    name: "java.util.HashMap",
    serial_version: 0x0507_dac1_c316_60d1,
    flags: WRITES_MORE,
    fields: &[(b'F', "loadFactor", ""), (b'I', "threshold", "")],
};

const ARRAY_LIST: Class = Class {
    name: "java.util.ArrayList",
    serial_version: 0x7881_d21d_99c7_619d,
    flags: WRITES_MORE,
    fields: &[(b'I', "size", "")],
};

/// Share of its places that a map fills before it grows.
const LOAD_FACTOR: f32 = 0.75;

/// Enumeration of the rights in access control lists.
const ACCESS_TYPE: &str = "org.apache.hadoop.yarn.api.records.ApplicationAccessType";

/// Facts of a log that its index holds.
#[derive(Clone, Debug)]
pub struct Description {
    /// Application whose containers wrote the files.
    pub application: ApplicationId,
    /// User of the application.
    pub owner: String,
    /// Access control lists of the application.
    pub acls: Acls,
    /// Host and port of the node.
    pub node: String,
}

/// Place of a file in a log, and what readers show of it.
#[derive(Debug)]
struct Entry {
    name: Box<str>,
    start: u64,
    compressed: u64,
    length: u64,
    modified: EpochMillis,
}

impl Entry {
    fn memory(&self) -> usize {
        size_of::<Self>() + self.name.len()
    }
}

/// An indexed log that grows by one container at a time. Without [`IndexedLog::finish`] it has no
/// index, and no reader accepts it.
#[derive(Debug)]
pub struct IndexedLog<W> {
    out: Counted<W>,
    compression: Compression,
    description: Description,
    id: [u8; 32],
    containers: Vec<(ContainerName, Vec<Entry>)>,
    index_bytes: usize,
}

impl<W: Write> IndexedLog<W> {
    /// Starts a log at the first byte of `out`.
    ///
    /// # Errors
    /// `out` takes no bytes.
    pub fn new(out: W, compression: Compression, description: Description) -> io::Result<Self> {
        let id = Sha256::digest(description.application.to_string());
        let mut out = Counted { out, position: 0 };
        out.write_all(&id)?;
        Ok(Self {
            out,
            compression,
            description,
            id: id.into(),
            containers: Vec::new(),
            index_bytes: 0,
        })
    }

    /// Begins the files of a container.
    pub fn begin_container(&mut self, id: ContainerName) {
        self.index_bytes += size_of::<(ContainerName, Vec<Entry>)>();
        self.containers.push((id, Vec::new()));
    }

    /// Returns whether the index takes so much memory that further containers belong in another
    /// log.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.index_bytes >= INDEX_BYTES_MAX
    }

    /// Appends a file of the container that was begun last: at most `length` bytes of `content`, so
    /// one that grows meanwhile is cut.
    ///
    /// # Errors
    /// `out` takes no bytes. Trouble with `content` is no error.
    pub fn append(
        &mut self,
        name: &str,
        length: u64,
        modified: EpochMillis,
        content: &mut dyn Read,
    ) -> io::Result<Appended> {
        let start = self.out.position;
        let (missing, error) = match self.compression {
            Compression::None => copy(content, length, &mut self.out)?,
            Compression::Gz => {
                let level = flate2::Compression::default();
                let mut encoder = ZlibEncoder::new(&mut self.out, level);
                let copied = copy(content, length, &mut encoder)?;
                encoder.finish()?;
                copied
            }
        };
        let entry = Entry {
            name: name.into(),
            start,
            compressed: self.out.position - start,
            length: length - missing,
            modified,
        };
        self.index_bytes += entry.memory();
        if let Some((_, entries)) = self.containers.last_mut() {
            entries.push(entry);
        }
        Ok(if missing == 0 {
            Appended::Whole
        } else {
            Appended::Cut { missing, error }
        })
    }

    /// Writes the index, which holds the name of the remote file and the time of the upload.
    /// Returns what [`IndexedLog::new`] was given, flushed.
    ///
    /// # Errors
    /// `out` takes no bytes, or the index is longer than its length can say.
    pub fn finish(mut self, file: &str, uploaded_at: EpochMillis) -> io::Result<W> {
        let begin = self.out.position;
        let mut index = ObjectStream::new(&mut self.out)?;
        index.object(&LOGS_META)?;
        index.int(VERSION)?;
        write_acls(&mut index, &self.description.acls)?;
        index.text(self.compression.as_str())?;
        write_list(&mut index, 1)?;
        index.object(&UPLOAD_META)?;
        index.long(uploaded_at.0)?;
        write_containers(&mut index, &self.containers)?;
        index.text(file)?;
        index.end()?;
        index.text(&self.description.node)?;
        index.text(&self.description.owner)?;
        let length = i32::try_from(self.out.position - begin)
            .map_err(|_| io::Error::other("the index of a log is too long"))?;
        self.out.write_all(&length.to_be_bytes())?;
        self.out.write_all(&self.id)?;
        self.out.flush()?;
        Ok(self.out.out)
    }
}

/// Begins a `HashMap` of this number of keys, which follow with their values.
fn write_map(index: &mut ObjectStream<impl Write>, keys: usize) -> io::Result<HashTable> {
    let table = HashTable::of(keys);
    index.object(&HASH_MAP)?;
    index.float(LOAD_FACTOR)?;
    index.int(table.threshold.cast_signed())?;
    index.block(&[table.places.cast_signed(), size(keys)?])?;
    Ok(table)
}

/// Begins an `ArrayList` of this length, whose elements follow.
fn write_list(index: &mut ObjectStream<impl Write>, length: usize) -> io::Result<()> {
    index.object(&ARRAY_LIST)?;
    index.int(size(length)?)?;
    index.block(&[size(length)?])
}

fn write_acls(index: &mut ObjectStream<impl Write>, acls: &Acls) -> io::Result<()> {
    write_map(index, acls.len())?;
    for (access, list) in acls {
        index.constant(ACCESS_TYPE, AccessType::as_str(*access))?;
        index.text(list)?;
    }
    index.end()
}

/// Writes the files of all containers, in the order in which Java's map has them.
fn write_containers(
    index: &mut ObjectStream<impl Write>,
    containers: &[(ContainerName, Vec<Entry>)],
) -> io::Result<()> {
    let table = write_map(index, containers.len())?;
    let mut places: Vec<(u32, usize)> = containers
        .iter()
        .enumerate()
        .map(|(at, (id, _))| (table.place(&id.to_string()), at))
        .collect();
    places.sort_unstable();
    for (id, entries) in places.iter().filter_map(|(_, at)| containers.get(*at)) {
        let id = index.text(&id.to_string())?;
        write_list(index, entries.len())?;
        for entry in entries {
            index.object(&FILE_META)?;
            for number in [entry.compressed, entry.length] {
                index.long(number.cast_signed())?;
            }
            index.long(entry.modified.0)?;
            index.long(entry.start.cast_signed())?;
            index.again(id)?;
            index.text(&entry.name)?;
        }
        index.end()?;
    }
    index.end()
}

fn size(count: usize) -> io::Result<i32> {
    i32::try_from(count).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// An output that counts.
#[derive(Debug)]
struct Counted<W> {
    out: W,
    /// Bytes written to `out`.
    position: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.position += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use flate2::read::ZlibDecoder;
    use test_support::ids::{application, container};

    use super::*;

    fn log(compression: Compression) -> IndexedLog<Vec<u8>> {
        let description = Description {
            application: application(1),
            owner: "joe".to_owned(),
            acls: vec![(AccessType::ViewApp, "ann ops".to_owned())],
            node: "host:45454".to_owned(),
        };
        IndexedLog::new(Vec::new(), compression, description).unwrap()
    }

    #[test]
    fn files_lie_where_the_index_says_between_two_ids() {
        for compression in [Compression::None, Compression::Gz] {
            let mut log = log(compression);
            log.begin_container(container(2).name());
            log.append("a", 5, EpochMillis(1), &mut &b"hello, it grew"[..])
                .unwrap();
            let cut = log
                .append("b", 9, EpochMillis(1), &mut &b"short"[..])
                .unwrap();
            assert!(matches!(
                cut,
                Appended::Cut {
                    missing: 4,
                    error: None
                }
            ));
            let places: Vec<_> = log.containers[0]
                .1
                .iter()
                .map(|entry| (entry.start, entry.compressed, entry.length))
                .collect();
            let bytes = log.finish("host_45454", EpochMillis(2)).unwrap();
            let id = Sha256::digest(application(1).to_string());
            assert!(bytes.starts_with(&id) && bytes.ends_with(&id));
            for ((start, compressed, length), text) in places.into_iter().zip(["hello", "short"]) {
                let end = usize::try_from(start + compressed).unwrap();
                let part = &bytes[usize::try_from(start).unwrap()..end];
                let content = match compression {
                    Compression::None => String::from_utf8(part.to_vec()).unwrap(),
                    Compression::Gz => io::read_to_string(ZlibDecoder::new(part)).unwrap(),
                };
                assert_eq!((content.as_str(), length), (text, 5));
            }
            let tail = &bytes[bytes.len() - 36..];
            let length = u32::from_be_bytes(tail[..4].try_into().unwrap());
            let index = bytes.len() - 36 - usize::try_from(length).unwrap();
            assert!(bytes[index..].starts_with(b"\xac\xed\x00\x05"));
        }
    }

    #[test]
    fn an_index_of_many_files_is_full() {
        let mut log = log(Compression::None);
        log.begin_container(container(2).name());
        let name = "x".repeat(255);
        let mut count = 0;
        while !log.is_full() {
            log.append(&name, 0, EpochMillis(1), &mut io::empty())
                .unwrap();
            count += 1;
            assert!(count < 200_000);
        }
        assert!(count > 50_000, "{count}");
    }
}
