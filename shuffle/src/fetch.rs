//! A fetch: the checks of a request in Hadoop's order, and the places of what it asks for.

use std::borrow::Cow;
use std::fs::File;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use crate::head::Head;
use crate::indexes::Indexes;
use crate::jobs::{Job, Jobs};
use crate::outputs::{self, DATA, INDEX, MapId, NotFound};
use crate::reply::{self, Refusal, Status};
use crate::spill::{Partition, SpillError, SpillIndex};

/// Request whose sender has the job's secret.
pub(crate) struct Fetch {
    job: Arc<Job>,
    maps: Vec<String>,
    reduce: i32,
    pub(crate) reply_hash: String,
    /// Whether the reducer asks to keep the connection.
    pub(crate) keep_alive: bool,
}

/// Map output that is to be sent.
pub(crate) struct Segment {
    map: MapId,
    /// Header that stands before the output.
    pub(crate) header: Vec<u8>,
    pub(crate) partition: Partition,
    /// File, open for the first segment of a reply only: so a connection holds one file.
    file: Option<File>,
}

impl Segment {
    /// Returns the bytes of the segment on the wire.
    pub(crate) fn bytes(&self) -> u64 {
        self.header.len() as u64 + self.partition.part_length
    }
}

/// Parameters of a query, each with all its values.
#[derive(Debug, Default)]
struct Parameters {
    job: Vec<String>,
    reduce: Vec<String>,
    map: Vec<String>,
    keep_alive: Vec<String>,
}

impl Parameters {
    fn read(target: &str) -> Self {
        let mut parameters = Self::default();
        let query = target.split_once('?').map_or("", |(_, query)| query);
        for pair in query.split(['&', ';']) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let values = match decode(name).as_str() {
                "job" => &mut parameters.job,
                "reduce" => &mut parameters.reduce,
                "map" => &mut parameters.map,
                "keepAlive" => &mut parameters.keep_alive,
                _ => continue,
            };
            values.push(decode(value));
        }
        parameters
    }
}

fn decode(text: &str) -> String {
    let spaced = if text.contains('+') {
        Cow::Owned(text.replace('+', " "))
    } else {
        Cow::Borrowed(text)
    };
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

impl Fetch {
    /// Checks a request up to its hash, in the order of `ShuffleChannelHandler.channelRead`.
    ///
    /// # Errors
    /// The refusal with Hadoop's status and text.
    pub(crate) fn check(head: &Head, jobs: &Jobs, port: u16) -> Result<Self, Refusal> {
        head.check()?;
        let refuse = |status, text: &str| Err(Refusal::new(status, text));
        let Parameters {
            job,
            reduce,
            map,
            keep_alive,
        } = Parameters::read(&head.target);
        let (job_id, reduce) = match (&*job, &*reduce, &*map) {
            ([], _, _) | (_, [], _) | (_, _, []) => {
                return refuse(Status::BadRequest, "Required param job, map and reduce");
            }
            ([job_id], [reduce], _) => (job_id, reduce),
            _ => return refuse(Status::BadRequest, "Too many job/reduce parameters"),
        };
        let Ok(reduce) = reduce.parse() else {
            return refuse(Status::BadRequest, "Bad reduce parameter");
        };
        let Some(job) = jobs.get(job_id) else {
            let text = format!("Can't find job token for job {job_id} !!");
            return refuse(Status::Unauthorized, &text);
        };
        let Some(url_hash) = &head.url_hash else {
            return refuse(Status::Unauthorized, "fetcher cannot be authenticated");
        };
        if !job.key.verifies(url_hash, port, &head.target) {
            let text = "Verification of the hashReply failed";
            return refuse(Status::Unauthorized, text);
        }
        Ok(Self {
            reply_hash: job.key.reply_hash(url_hash),
            job,
            maps: map.iter().flat_map(|list| split_maps(list)).collect(),
            reduce,
            keep_alive: matches!(&*keep_alive, [flag] if flag.eq_ignore_ascii_case("true")),
        })
    }

    /// Returns the user whose job it is.
    pub(crate) fn user(&self) -> &Arc<str> {
        &self.job.user
    }

    /// Finds every map output that is asked for. Reads files, and waits for them.
    ///
    /// # Errors
    /// The refusal for the first output that cannot be sent.
    pub(crate) fn locate(&self, indexes: &Indexes) -> Result<Vec<Segment>, Refusal> {
        let mut segments = Vec::with_capacity(self.maps.len());
        for map in &self.maps {
            let mut segment = self.locate_one(map, indexes)?;
            if !segments.is_empty() {
                segment.file = None;
            }
            segments.push(segment);
        }
        Ok(segments)
    }

    fn locate_one(&self, map: &str, indexes: &Indexes) -> Result<Segment, Refusal> {
        let folders = &*self.job.folders;
        let Some(map) = MapId::parse(map) else {
            return Err(failed(NotFound::new(folders, map, INDEX).to_string()));
        };
        let index = indexes.get_or_read(self.job.serial, &map, || {
            let file = outputs::open(folders, &map, INDEX).map_err(|e| failed(e.to_string()))?;
            SpillIndex::read(&file).map_err(|error| unreadable(&error, &map))
        })?;
        let file = outputs::open(folders, &map, DATA).map_err(|e| failed(e.to_string()))?;
        let Ok(reduce) = usize::try_from(self.reduce) else {
            return Err(failed(String::new()));
        };
        let Some(partition) = index.get(reduce) else {
            return Err(failed(format!(
                "Invalid request  Map Id = {} Reducer = {reduce} Index Info Length = {}",
                map.as_str(),
                index.len()
            )));
        };
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        if length < partition.start + partition.part_length {
            let map = map.as_str();
            return Err(failed(format!(
                "{map}/{DATA} is shorter than its index says"
            )));
        }
        let Partition {
            raw_length,
            part_length,
            ..
        } = partition;
        let header = reply::shuffle_header(map.as_str(), part_length, raw_length, reduce as u64);
        Ok(Segment {
            map,
            header,
            partition,
            file: Some(file),
        })
    }

    /// Returns the file of a segment, opened again if need be.
    ///
    /// # Errors
    /// The file is gone.
    pub(crate) fn open(&self, segment: &mut Segment) -> Result<File, NotFound> {
        match segment.file.take() {
            Some(file) => Ok(file),
            None => outputs::open(&self.job.folders, &segment.map, DATA),
        }
    }
}

/// Splits a list of maps as Java does: empty names at the end do not count, but an empty list is
/// one empty name.
fn split_maps(list: &str) -> impl Iterator<Item = String> {
    let names = list.trim_end_matches(',').split(',');
    names.map(str::to_owned)
}

fn failed(text: String) -> Refusal {
    Refusal::new(Status::InternalError, text)
}

/// Returns the refusal of an index. Hadoop's text names the absolute path, and "null" for a file
/// that ends too early.
fn unreadable(error: &SpillError, map: &MapId) -> Refusal {
    let map = map.as_str();
    failed(match error {
        SpillError::Length(_) => "Error Reading IndexFilenull".to_owned(),
        SpillError::Checksum | SpillError::Partition(_) | SpillError::Io(_) => {
            format!("Error Reading IndexFile{error}: {map}/{INDEX}")
        }
    })
}

#[cfg(test)]
mod tests;
