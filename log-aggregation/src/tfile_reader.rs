//! A small reader of TFiles, for tests: written from the description of the format, not from the
//! writer.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::ZlibDecoder;

/// Content of a TFile.
pub(crate) struct Entries {
    /// Keys and values in the order of the file.
    pub(crate) entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// Number of entries of each data block.
    pub(crate) block_entries: Vec<usize>,
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (head, tail) = bytes.split_at(count);
    *bytes = tail;
    head
}

/// Reads a number and moves past it.
pub(crate) fn read_number(bytes: &mut &[u8]) -> i64 {
    let first = i64::from(take(bytes, 1)[0].cast_signed());
    let (start, follow) = match first {
        -32.. => return first,
        -72..=-33 => (first + 52, 1),
        -104..=-73 => (first + 88, 2),
        -120..=-105 => (first + 112, 3),
        _ => (0, usize::try_from(first + 129).unwrap()),
    };
    let rest = take(bytes, follow);
    let is_long = first < -120;
    let start = if is_long && rest[0] >= 0x80 {
        -1
    } else {
        start
    };
    rest.iter()
        .fold(start, |number, byte| (number << 8) | i64::from(*byte))
}

fn read_length(bytes: &mut &[u8]) -> usize {
    usize::try_from(read_number(bytes)).unwrap()
}

fn read_bytes<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let length = read_length(bytes);
    take(bytes, length)
}

fn read_text(bytes: &mut &[u8]) -> String {
    String::from_utf8(read_bytes(bytes).to_vec()).unwrap()
}

/// Reads offset and sizes, and returns the block's bytes.
fn read_region(file: &[u8], index: &mut &[u8], compression: &str) -> Vec<u8> {
    let offset = read_length(index);
    let (compressed, raw) = (read_length(index), read_length(index));
    let bytes = &file[offset..offset + compressed];
    let mut block = Vec::new();
    match compression {
        "none" => block.extend_from_slice(bytes),
        "gz" => {
            ZlibDecoder::new(bytes).read_to_end(&mut block).unwrap();
        }
        other => panic!("{other}"),
    }
    assert_eq!(block.len(), raw);
    block
}

fn read_value(block: &mut &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    loop {
        let length = read_number(block);
        let count = usize::try_from(length.unsigned_abs()).unwrap();
        value.extend_from_slice(take(block, count));
        if length >= 0 {
            return value;
        }
    }
}

impl Entries {
    /// Reads a whole file and checks that its indexes agree with its blocks.
    pub(crate) fn read(file: &[u8]) -> Self {
        let trailer = &file[file.len() - 28..];
        assert_eq!(trailer[12..], file[..16]);
        assert_eq!(trailer[8..12], [0, 1, 0, 0]);
        let meta_index = usize::try_from(u64::from_be_bytes(trailer[..8].try_into().unwrap()));
        let mut index = &file[meta_index.unwrap()..file.len() - 28];
        let mut meta = BTreeMap::new();
        for _ in 0..read_length(&mut index) {
            let (name, compression) = (read_text(&mut index), read_text(&mut index));
            meta.insert(name, read_region(file, &mut index, &compression));
        }
        assert!(index.is_empty());

        let mut data = &meta["data:BCFile.index"][..];
        let compression = read_text(&mut data);
        let count = read_length(&mut data);
        let blocks: Vec<_> = (0..count)
            .map(|_| read_region(file, &mut data, &compression))
            .collect();

        let mut tfile_meta = &meta["data:TFile.meta"][4..];
        let entry_count = read_length(&mut tfile_meta);
        let mut keys = &meta["data:TFile.index"][..];
        let mut first = read_bytes(&mut keys);
        let mut entries = Vec::new();
        let mut block_entries = Vec::new();
        for block in blocks {
            let mut block = &block[..];
            let before = entries.len();
            while !block.is_empty() {
                let key = read_bytes(&mut block).to_vec();
                entries.push((key, read_value(&mut block)));
            }
            let mut record = read_bytes(&mut keys);
            assert_eq!(read_bytes(&mut record), entries.last().unwrap().0);
            assert_eq!(read_length(&mut record), entries.len() - before);
            block_entries.push(entries.len() - before);
        }
        assert_eq!(entries.len(), entry_count);
        if let Some((key, _)) = entries.first() {
            assert_eq!(read_bytes(&mut first), key);
        }
        Self {
            entries,
            block_entries,
        }
    }
}
