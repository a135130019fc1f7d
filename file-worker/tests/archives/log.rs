//! A receiver of entries that records what it gets.

use std::io::Read;
use std::time::SystemTime;

use archives::{Entries, Region, Regions, Stopped, Unsupported};

/// Receiver that records what it gets, and stops at a name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) entries: Vec<Entry>,
    pub(crate) stop_at: Option<&'static str>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Folder(Vec<u8>),
    File(Vec<u8>, Vec<u8>, Option<SystemTime>),
    Sparse(Vec<u8>, Vec<Region>, u64, Vec<u8>, Option<SystemTime>),
    SymbolicLink(Vec<u8>, Vec<u8>),
    HardLink(Vec<u8>, Vec<u8>),
    /// Bytes, of one or more calls.
    Skipped(Vec<u8>, u64),
    Refused(Vec<u8>, Unsupported),
    /// Content of an entry that cannot be read.
    Broken(String),
}

/// Returns a name as it may arrive: the end of one that is too long for anything may be missing.
fn name(name: &[u8]) -> Vec<u8> {
    let max = archives::NAME_BYTES_MAX + 1;
    name.get(..max).unwrap_or(name).to_vec()
}

impl Log {
    fn add(&mut self, entry: Entry) -> Result<(), Stopped> {
        let is_last = matches!((&entry, self.stop_at), (Entry::File(name, ..), Some(stop))
            if name == stop.as_bytes());
        self.entries.push(entry);
        if is_last { Err(Stopped) } else { Ok(()) }
    }

    fn all_of(&mut self, content: &mut dyn Read) -> Result<Vec<u8>, Stopped> {
        let mut all = Vec::new();
        content.read_to_end(&mut all).map_err(|error| {
            self.entries.push(Entry::Broken(error.to_string()));
            Stopped
        })?;
        Ok(all)
    }
}

impl Entries for Log {
    fn folder(&mut self, of: &[u8]) -> Result<(), Stopped> {
        self.add(Entry::Folder(name(of)))
    }

    fn file(
        &mut self,
        of: &[u8],
        content: &mut dyn Read,
        modified: Option<SystemTime>,
    ) -> Result<(), Stopped> {
        let content = self.all_of(content)?;
        self.add(Entry::File(name(of), content, modified))
    }

    fn sparse_file(
        &mut self,
        of: &[u8],
        regions: Regions<'_>,
        content: &mut dyn Read,
        modified: Option<SystemTime>,
    ) -> Result<(), Stopped> {
        // No more than it needs, as when a file is written.
        let stored = regions.parts.iter().map(|part| part.length).sum();
        let content = self.all_of(&mut content.take(stored))?;
        let parts = regions.parts.to_vec();
        self.add(Entry::Sparse(
            name(of),
            parts,
            regions.size,
            content,
            modified,
        ))
    }

    fn symbolic_link(&mut self, of: &[u8], target: &[u8]) -> Result<(), Stopped> {
        self.add(Entry::SymbolicLink(name(of), name(target)))
    }

    fn hard_link(&mut self, of: &[u8], target: &[u8]) -> Result<(), Stopped> {
        self.add(Entry::HardLink(name(of), name(target)))
    }

    fn skip(&mut self, of: &[u8], content: &mut dyn Read) -> Result<(), Stopped> {
        let more = self.all_of(content)?.len() as u64;
        if more == 0 {
            return Ok(());
        }
        let of = name(of);
        match self.entries.last_mut() {
            Some(Entry::Skipped(last, bytes)) if *last == of => *bytes += more,
            _ => self.entries.push(Entry::Skipped(of, more)),
        }
        Ok(())
    }

    fn refuse(&mut self, of: &[u8], reason: Unsupported) -> Stopped {
        self.entries.push(Entry::Refused(name(of), reason));
        Stopped
    }
}
