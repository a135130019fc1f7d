//! What an ApplicationMaster has stated to its ResourceManager: it states a number of containers
//! anew when that differs from what it counts as outstanding, as Hadoop's client library does.

/// Containers of one type that are counted as outstanding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stated(u32);

impl Stated {
    /// Takes the number that is wanted. Returns it if it has to be stated.
    pub(crate) fn wants(&mut self, wanted: u32) -> Option<u32> {
        let is_new = std::mem::replace(&mut self.0, wanted) != wanted;
        is_new.then_some(wanted)
    }

    /// Counts containers that have come.
    pub(crate) fn got(&mut self, containers: u32) {
        self.0 = self.0.saturating_sub(containers);
    }
}
