//! Objects of JSON one after another, as Hadoop's tools write them: no array, no commas.

use std::fmt;
use std::io::BufRead;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, SeqAccess, Visitor};
use serde_json::de::IoRead;
use serde_json::{Deserializer as JsonReader, StreamDeserializer};

use crate::TraceError;
use crate::input::{Counted, Place, Watch};
use crate::job::TASKS_MAX;

/// Objects of one type.
pub(crate) struct Objects<R: BufRead, T> {
    stream: StreamDeserializer<'static, IoRead<Counted<R>>, T>,
    watch: Watch,
}

impl<R: BufRead, T: DeserializeOwned> Objects<R, T> {
    pub(crate) fn new(input: R, bytes_max: u64) -> Self {
        let (input, watch) = Counted::new(input, bytes_max);
        let stream = JsonReader::from_reader(input).into_iter();
        Self { stream, watch }
    }

    /// Returns the next object and the place of its first byte.
    pub(crate) fn next_object(&mut self) -> Result<Option<(Place, T)>, TraceError> {
        self.watch.begin();
        match self.stream.next() {
            None => Ok(None),
            Some(Ok(object)) => Ok(Some((self.watch.object_place(), object))),
            Some(Err(error)) => Err(TraceError::new(self.watch.place(), reason(&error))),
        }
    }
}

/// Returns the reason without the place, which the reader of JSON counts within its own input.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = match text.rfind(" at line ") {
        Some(end) => &text[..end],
        None => &text,
    };
    let cut = if error.is_eof() { "cut off: " } else { "" };
    // A text may quote what it met, which can be as long as an object.
    let text: String = text.chars().take(300).collect();
    format!("{cut}{text}")
}

/// Whole number, which Hadoop's readers take as a number or as a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole(pub(crate) i64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl Visitor<'_> for Numbers {
            type Value = Whole;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Whole, E> {
                Ok(Whole(value))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Whole, E> {
                i64::try_from(value).map(Whole).map_err(E::custom)
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Whole, E> {
                value.parse().map(Whole).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Numbers)
    }
}

/// Reads a list of at most [`TASKS_MAX`] elements: memory is taken as they come, and no more.
pub(crate) fn bounded<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Elements<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut all = Vec::new();
            while let Some(element) = list.next_element()? {
                if all.len() as u64 >= TASKS_MAX {
                    let reason = format!("a list of more than {TASKS_MAX} elements");
                    return Err(A::Error::custom(reason));
                }
                all.push(element);
            }
            Ok(all)
        }

        fn visit_unit<E: Error>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }
    }
    deserializer.deserialize_any(Elements(PhantomData))
}

/// Last element of a list, of which no other is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last<T>(pub(crate) Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Last<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = Last<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Last<T>, A::Error> {
                let mut last = None;
                while let Some(element) = list.next_element()? {
                    last = Some(element);
                }
                Ok(Last(last))
            }
        }
        deserializer.deserialize_seq(Elements(PhantomData))
    }
}
