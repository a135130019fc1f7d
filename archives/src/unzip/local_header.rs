//! The header before each entry of a zip.

use std::io::{self, Read};
use std::time::{Duration, SystemTime};

use flate2::Crc;

use super::malformed;

/// Value of a 32-bit length that stands in the extra field of zip64.
const IN_ZIP64: u32 = u32::MAX;

/// Identifiers of extra fields.
const ZIP64: u16 = 0x0001;
const UNICODE_PATH: u16 = 0x7075;
const EXTENDED_TIMES: u16 = 0x5455;

/// A header before an entry (APPNOTE 4.3.7), behind its signature.
pub(super) struct LocalHeader {
    flags: u16,
    pub(super) method: u16,
    pub(super) crc: u32,
    pub(super) packed_bytes: u64,
    pub(super) bytes: u64,
    /// System whose conventions the names follow; 0: those of DOS and Windows.
    system: u8,
    name: Vec<u8>,
    extra: Vec<u8>,
}

impl LocalHeader {
    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let [_version, system] = array(from)?;
        let mut short = || array(from).map(u16::from_le_bytes);
        let (flags, method, _time, _date) = (short()?, short()?, short()?, short()?);
        let mut long = || array(from).map(u32::from_le_bytes);
        let (crc, packed, unpacked) = (long()?, long()?, long()?);
        let mut short = || array(from).map(u16::from_le_bytes);
        let (name_bytes, extra_bytes) = (short()?, short()?);
        let mut text = |length: u16| {
            let mut text = vec![0; length.into()];
            from.read_exact(&mut text).map(|()| text)
        };
        let (name, extra) = (text(name_bytes)?, text(extra_bytes)?);
        let mut header = Self {
            flags,
            method,
            crc,
            packed_bytes: packed.into(),
            bytes: unpacked.into(),
            system: system & 0xf,
            name,
            extra,
        };
        if packed == IN_ZIP64 || unpacked == IN_ZIP64 {
            header.read_zip64(packed, unpacked)?;
        }
        Ok(header)
    }

    fn read_zip64(&mut self, packed: u32, unpacked: u32) -> io::Result<()> {
        let Some(mut field) = self.extra(ZIP64) else {
            return Ok(());
        };
        let mut long = |is_there, short: u32| {
            if is_there {
                array(&mut field).map(u64::from_le_bytes)
            } else {
                Ok(short.into())
            }
        };
        let bytes = long(unpacked == IN_ZIP64, unpacked)?;
        let packed_bytes = long(packed == IN_ZIP64, packed)?;
        (self.bytes, self.packed_bytes) = (bytes, packed_bytes);
        Ok(())
    }

    /// Returns the content of the first extra field with this identifier.
    fn extra(&self, wanted: u16) -> Option<&[u8]> {
        let mut rest = self.extra.as_slice();
        loop {
            let (head, behind) = rest.split_first_chunk::<4>()?;
            let [id_low, id_high, length_low, length_high] = *head;
            let length = u16::from_le_bytes([length_low, length_high]);
            let (content, next) = behind.split_at_checked(length.into())?;
            if u16::from_le_bytes([id_low, id_high]) == wanted {
                return Some(content);
            }
            rest = next;
        }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        // Bit 13: also names and lengths.
        self.flags & (1 | 1 << 13) != 0
    }

    /// Whether checksum and lengths follow the entry.
    pub(super) fn has_descriptor(&self) -> bool {
        self.flags & 1 << 3 != 0
    }

    fn is_utf8(&self) -> bool {
        self.flags & 1 << 11 != 0
    }

    pub(super) fn raw_name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the name as `java.util.zip.ZipInputStream` reads it, which unpacks jars: UTF-8.
    pub(super) fn name_in_jar(&self) -> Option<Vec<u8>> {
        str::from_utf8(&self.name)
            .is_ok()
            .then(|| self.name.clone())
    }

    /// Returns the name as `ZipArchiveInputStream` of commons-compress reads it, which unpacks
    /// zips. Bytes that are not UTF-8 become question marks, unless the entry has its name in
    /// Unicode besides. Programs of Windows before 2017 put backslashes between folders.
    pub(super) fn name_in_zip(&self) -> Vec<u8> {
        let unicode = self.extra(UNICODE_PATH).filter(|_| !self.is_utf8());
        let unicode = unicode.and_then(|field| {
            let (head, unicode) = field.split_first_chunk::<5>()?;
            let [version, crc @ ..] = *head;
            let mut of_name = Crc::new();
            of_name.update(&self.name);
            let is_of_name = u32::from_le_bytes(crc) == of_name.sum();
            (version == 1 && is_of_name).then_some(unicode)
        });
        let mut name = Vec::new();
        for chunk in unicode.unwrap_or(&self.name).utf8_chunks() {
            name.extend_from_slice(chunk.valid().as_bytes());
            name.extend((!chunk.invalid().is_empty()).then_some(b'?'));
        }
        if self.system == 0 && !name.contains(&b'/') {
            let backslashes = name.iter_mut().filter(|byte| **byte == b'\\');
            backslashes.for_each(|byte| *byte = b'/');
        }
        name
    }

    /// Returns the time of modification, if the entry tells one that does not depend on the time
    /// zone.
    pub(super) fn modified(&self) -> Option<SystemTime> {
        let (flags, times) = self.extra(EXTENDED_TIMES)?.split_first()?;
        let seconds = i32::from_le_bytes(*times.first_chunk()?);
        let seconds = u64::try_from(seconds).ok().filter(|_| flags & 1 != 0)?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
    }
}

/// Reads this many bytes.
pub(super) fn array<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut array = [0; N];
    match from.read_exact(&mut array) {
        Ok(()) => Ok(array),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(malformed("it ends within a header"))
        }
        Err(error) => Err(error),
    }
}
