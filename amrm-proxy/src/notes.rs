//! Typed notes that travel with a request beside its message.
//!
//! One module defines the type of a note, another one puts it or reads it, and nobody between them
//! knows of it. A request without notes allocates nothing.

use std::any::Any;
use std::fmt;

/// Notes of a request, at most one of each type.
#[derive(Default)]
pub struct Notes(Vec<Box<dyn Any + Send + Sync>>);

impl Notes {
    /// Adds a note, in place of an earlier one of its type.
    pub fn put<T: Any + Send + Sync>(&mut self, note: T) {
        self.take::<T>();
        self.0.push(Box::new(note));
    }

    /// Returns the note of this type.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.iter().find_map(|note| note.downcast_ref())
    }

    /// Removes the note of this type and returns it.
    pub fn take<T: Any>(&mut self) -> Option<T> {
        let place = self.0.iter().position(|note| note.is::<T>())?;
        let note = self.0.swap_remove(place).downcast();
        note.ok().map(|note| *note)
    }
}

impl fmt::Debug for Notes {
    /// Prints their number: a note may hold tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Notes").field(&self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Colour(&'static str);

    #[test]
    fn a_note_is_found_by_its_type_and_replaced_by_the_next_of_its_type() {
        let mut notes = Notes::default();
        assert_eq!(notes.get::<Colour>(), None);
        notes.put(Colour("red"));
        notes.put(7_u8);
        notes.put(Colour("blue"));
        assert_eq!(notes.get(), Some(&Colour("blue")));
        assert_eq!(notes.take(), Some(Colour("blue")));
        assert_eq!(notes.take::<Colour>(), None);
        assert_eq!(notes.get(), Some(&7_u8));
        assert_eq!(format!("{notes:?}"), "Notes(1)");
    }
}
