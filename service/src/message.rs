//! Notifications for a service manager, as text. Pure.

/// Limit on the bytes of a notification (`NOTIFY_BUFFER_MAX` of systemd: the size of a pipe's
/// atomic write).
pub(crate) const BYTES_MAX: usize = 4096;

/// Limit on the characters of a status.
const STATUS_CHARS_MAX: usize = 512;

/// A notification (source: `sd_notify(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// The program serves.
    Ready,
    /// One line for people. Control characters become spaces, and the line is cut after 512
    /// characters.
    Status(&'a str),
    /// The program reads its configuration again; [`Ready`](Self::Ready) says that it has.
    Reloading {
        /// Time of `CLOCK_MONOTONIC`, in microseconds: the manager ignores what is older than its
        /// own order to read again.
        monotonic_us: u64,
    },
    /// The program ends in order.
    Stopping,
    /// The program makes progress.
    Alive,
    /// A socket to keep comes along, under this name.
    Keep(&'a str),
    /// The sockets of this name are kept no longer.
    Drop(&'a str),
}

impl Message<'_> {
    /// Returns the text of the notification, at most [`BYTES_MAX`] bytes.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Ready => "READY=1".to_owned(),
            Self::Status(line) => {
                let shown = line.chars().take(STATUS_CHARS_MAX);
                let shown = shown.map(|char| if char.is_control() { ' ' } else { char });
                "STATUS=".chars().chain(shown).collect()
            }
            Self::Reloading { monotonic_us } => {
                format!("RELOADING=1\nMONOTONIC_USEC={monotonic_us}")
            }
            Self::Stopping => "STOPPING=1".to_owned(),
            Self::Alive => "WATCHDOG=1".to_owned(),
            // A listening socket never hangs up, so it need not be polled for that.
            Self::Keep(name) => format!("FDSTORE=1\nFDNAME={name}\nFDPOLL=0"),
            Self::Drop(name) => format!("FDSTOREREMOVE=1\nFDNAME={name}"),
        }
    }
}

/// Returns whether a name can be that of a kept socket (systemd: `fdname_is_valid`).
pub(crate) fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b':';
    (1..=255).contains(&name.len()) && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_one_line_of_bounded_length_whatever_it_contains() {
        let text = Message::Status("2 running\nREADY=1\u{1b}[2J").text();
        assert_eq!(text, "STATUS=2 running READY=1 [2J");
        let long = "ü".repeat(5_000);
        let text = Message::Status(&long).text();
        assert!(text.len() <= BYTES_MAX, "{}", text.len());
        assert_eq!(text.chars().count(), "STATUS=".len() + STATUS_CHARS_MAX);
    }

    #[test]
    fn texts_are_those_of_the_protocol() {
        let reloading = Message::Reloading { monotonic_us: 7 };
        assert_eq!(reloading.text(), "RELOADING=1\nMONOTONIC_USEC=7");
        assert_eq!(
            Message::Keep("web").text(),
            "FDSTORE=1\nFDNAME=web\nFDPOLL=0"
        );
        assert_eq!(Message::Drop("web").text(), "FDSTOREREMOVE=1\nFDNAME=web");
    }

    #[test]
    fn names_of_sockets_are_those_that_systemd_accepts() {
        for name in ["", "a:b", "a\nb", "ü", "x".repeat(256).as_str()] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(is_name("container-management"));
    }
}
