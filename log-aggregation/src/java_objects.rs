//! Writer of Java's serialized objects, as far as the index of [`indexed_log`](crate::indexed_log)
//! needs it. Pure over [`Write`].
//!
//! Classes and objects that the stream has had are named by handles, numbered in the order in which
//! they came. Source: Java Object Serialization Specification, version 6.0, "Object Serialization
//! Stream Protocol".

use std::io::{self, Write};

use crate::aggregated_log::modified_utf_8;

/// First bytes of a stream: magic number and version.
const HEADER: [u8; 4] = [0xac, 0xed, 0, 5];

/// Handle of the first class, object or text of a stream.
const FIRST_HANDLE: u32 = 0x7e_0000;

/// Tags of the protocol.
const NULL: u8 = 0x70;
const REFERENCE: u8 = 0x71;
const CLASS: u8 = 0x72;
const OBJECT: u8 = 0x73;
const STRING: u8 = 0x74;
const BLOCK: u8 = 0x77;
const END: u8 = 0x78;
const LONG_STRING: u8 = 0x7c;
const ENUM: u8 = 0x7e;

/// Flags of a class whose objects have their fields only, and of one that writes more behind them.
pub(crate) const FIELDS_ONLY: u8 = 0x02;
pub(crate) const WRITES_MORE: u8 = 0x03;

/// Flags of an enumeration.
const OF_ENUM: u8 = 0x12;

/// Class of objects, with its fields in Java's order: primitive ones, then the others, by name.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) name: &'static str,
    pub(crate) serial_version: i64,
    pub(crate) flags: u8,
    /// Type's letter, name, and for `L` the type itself.
    pub(crate) fields: &'static [(u8, &'static str, &'static str)],
}

/// Class of all enumerations.
const ENUM_CLASS: &str = "java.lang.Enum";

/// Handle of something that the stream has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(u32);

/// A stream of objects.
#[derive(Debug)]
pub(crate) struct ObjectStream<W> {
    out: W,
    next: u32,
    /// Classes and names of types that the stream has had. There are few.
    known: Vec<(&'static str, Handle)>,
}

impl<W: Write> ObjectStream<W> {
    /// Starts a stream.
    ///
    /// # Errors
    /// `out` takes no bytes.
    pub(crate) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&HEADER)?;
        Ok(Self {
            out,
            next: FIRST_HANDLE,
            known: Vec::new(),
        })
    }

    /// Begins an object. Its fields follow in the order of the class, then what the class writes
    /// more.
    ///
    /// # Errors
    /// As with [`ObjectStream::new`], and so with all others.
    pub(crate) fn object(&mut self, class: &Class) -> io::Result<()> {
        self.out.write_all(&[OBJECT])?;
        self.class(class)?;
        let _unshared = self.handle();
        Ok(())
    }

    /// Writes a constant of an enumeration.
    pub(crate) fn constant(
        &mut self,
        enumeration: &'static str,
        name: &'static str,
    ) -> io::Result<()> {
        self.out.write_all(&[ENUM])?;
        if !self.reference_to(enumeration)? {
            self.class_begin(enumeration, 0, OF_ENUM, 0)?;
            self.out.write_all(&[END])?;
            if !self.reference_to(ENUM_CLASS)? {
                self.class_begin(ENUM_CLASS, 0, OF_ENUM, 0)?;
                self.out.write_all(&[END, NULL])?;
            }
        }
        let _constant = self.handle();
        self.known_text(name)
    }

    /// Writes a text and returns its handle.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<Handle> {
        let bytes = modified_utf_8(text);
        match u16::try_from(bytes.len()) {
            Ok(length) => {
                self.out.write_all(&[STRING])?;
                self.out.write_all(&length.to_be_bytes())?;
            }
            Err(_) => {
                self.out.write_all(&[LONG_STRING])?;
                self.out.write_all(&(bytes.len() as u64).to_be_bytes())?;
            }
        }
        self.out.write_all(&bytes)?;
        Ok(self.handle())
    }

    /// Writes once more what has this handle.
    pub(crate) fn again(&mut self, handle: Handle) -> io::Result<()> {
        self.out.write_all(&[REFERENCE])?;
        self.out.write_all(&handle.0.to_be_bytes())
    }

    /// Writes a field of four bytes.
    pub(crate) fn int(&mut self, value: i32) -> io::Result<()> {
        self.out.write_all(&value.to_be_bytes())
    }

    /// Writes a field of eight bytes.
    pub(crate) fn long(&mut self, value: i64) -> io::Result<()> {
        self.out.write_all(&value.to_be_bytes())
    }

    /// Writes a field of a floating point number.
    pub(crate) fn float(&mut self, value: f32) -> io::Result<()> {
        self.out.write_all(&value.to_be_bytes())
    }

    /// Writes a block of numbers between the objects that a class writes behind its fields.
    pub(crate) fn block(&mut self, numbers: &[i32]) -> io::Result<()> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_be_bytes()).collect();
        let length = u8::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.out.write_all(&[BLOCK, length])?;
        self.out.write_all(&bytes)
    }

    /// Ends what a class writes behind its fields.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.out.write_all(&[END])
    }

    fn class(&mut self, class: &Class) -> io::Result<()> {
        if self.reference_to(class.name)? {
            return Ok(());
        }
        let count = u16::try_from(class.fields.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.class_begin(class.name, class.serial_version, class.flags, count)?;
        for (letter, name, class) in class.fields {
            self.out.write_all(&[*letter])?;
            self.name(name)?;
            if *letter == b'L' {
                self.known_text(class)?;
            }
        }
        self.out.write_all(&[END, NULL])
    }

    fn class_begin(
        &mut self,
        name: &'static str,
        serial_version: i64,
        flags: u8,
        fields: u16,
    ) -> io::Result<()> {
        self.out.write_all(&[CLASS])?;
        self.name(name)?;
        self.out.write_all(&serial_version.to_be_bytes())?;
        let handle = self.handle();
        self.known.push((name, handle));
        self.out.write_all(&[flags])?;
        self.out.write_all(&fields.to_be_bytes())
    }

    /// Writes a text that Java has once in a process.
    fn known_text(&mut self, text: &'static str) -> io::Result<()> {
        if !self.reference_to(text)? {
            let handle = self.text(text)?;
            self.known.push((text, handle));
        }
        Ok(())
    }

    /// Writes a reference to what is known by this name; returns whether it is.
    fn reference_to(&mut self, name: &str) -> io::Result<bool> {
        let found = self.known.iter().find(|(known, _)| *known == name);
        match found.map(|(_, handle)| *handle) {
            Some(handle) => self.again(handle).map(|()| true),
            None => Ok(false),
        }
    }

    fn name(&mut self, name: &str) -> io::Result<()> {
        let length = u16::try_from(name.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.out.write_all(&length.to_be_bytes())?;
        self.out.write_all(name.as_bytes())
    }

    fn handle(&mut self) -> Handle {
        let handle = Handle(self.next);
        self.next += 1;
        handle
    }
}

/// Places of a `java.util.HashMap` that was filled key by key, and how many keys it holds before it
/// grows (`threshold`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashTable {
    pub(crate) places: u32,
    pub(crate) threshold: u32,
}

impl HashTable {
    /// Places of the table that the first key makes.
    const FIRST: u32 = 16;

    /// Returns the table of a map with this number of keys.
    pub(crate) fn of(keys: usize) -> Self {
        if keys == 0 {
            return Self {
                places: Self::FIRST,
                threshold: 0,
            };
        }
        let threshold = |places: u32| places / 4 * 3;
        let mut places = Self::FIRST;
        while keys > threshold(places) as usize && places < 1 << 30 {
            places *= 2;
        }
        Self {
            places,
            threshold: threshold(places),
        }
    }

    /// Returns the place of a text. Texts of one place stay in the order in which they came.
    pub(crate) fn place(self, key: &str) -> u32 {
        let hash = key.encode_utf16().fold(0_u32, |hash, unit| {
            hash.wrapping_mul(31).wrapping_add(u32::from(unit))
        });
        (hash ^ (hash >> 16)) & (self.places - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_grow_as_javas() {
        let of = |keys| (HashTable::of(keys).places, HashTable::of(keys).threshold);
        assert_eq!([of(0), of(1), of(12)], [(16, 0), (16, 12), (16, 12)]);
        assert_eq!([of(13), of(24), of(25)], [(32, 24), (32, 24), (64, 48)]);
    }

    #[test]
    fn texts_have_javas_hash_codes() {
        // "Aa" and "BB" have the hash code 2112 in Java.
        let table = HashTable::of(1);
        assert_eq!(table.place("Aa"), 2112 & 15);
        assert_eq!(table.place("BB"), table.place("Aa"));
    }
}
