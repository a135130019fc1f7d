//! Keeps the diagnostics of one message to the ResourceManager within what an RPC frame may hold.
//! Pure.
//!
//! A heartbeat cannot be split: containers missing from it would be taken for lost. Ten thousand
//! containers may end between two heartbeats, each with ten thousand characters of diagnostics,
//! which is near Hadoop's limit of 128 MiB for a frame (`ipc.maximum.data.length`). Then each text
//! keeps its end, as everywhere, and its fair share.

/// Bytes of diagnostics in one message: a quarter of a frame, so that everything else has ample
/// room.
pub(super) const DIAGNOSTICS_BYTES_MAX: usize = 32 << 20;

/// Bytes of diagnostics in one answer to an AM, which may ask for ten thousand containers: those of
/// some hundred with the longest texts stay whole.
pub(super) const ANSWER_DIAGNOSTICS_BYTES_MAX: usize = 8 << 20;

/// Cuts texts at the front until all together have at most `bytes_max`; those within their equal
/// share stay whole.
pub(super) fn shorten<'a>(texts: impl Iterator<Item = &'a mut String>, bytes_max: usize) {
    let texts: Vec<&mut String> = texts.collect();
    let total: usize = texts.iter().map(|text| text.len()).sum();
    if total <= bytes_max || texts.is_empty() {
        return;
    }
    let share = bytes_max / texts.len();
    tracing::warn!(total, share, "diagnostics are cut to fit into one message");
    for text in texts {
        keep_end(text, share);
    }
}

/// Cuts a text at the front to at most `bytes_max`, and returns the memory of the rest.
pub(super) fn keep_end(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        let mut start = text.len() - bytes_max;
        while !text.is_char_boundary(start) {
            start += 1;
        }
        text.drain(..start);
        text.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(texts: &[&str], bytes_max: usize) -> Vec<String> {
        let mut texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        shorten(texts.iter_mut(), bytes_max);
        texts
    }

    #[test]
    fn what_fits_stays_whole() {
        assert_eq!(shortened(&["abc", "defg"], 7), ["abc", "defg"]);
        assert!(shortened(&[], 0).is_empty());
    }

    #[test]
    fn long_texts_keep_their_end_and_short_ones_stay() {
        assert_eq!(shortened(&["abcdefgh", "xy"], 8), ["efgh", "xy"]);
    }

    #[test]
    fn characters_are_not_cut_in_two() {
        assert_eq!(shortened(&["ééé"], 3), ["é"]);
        assert_eq!(shortened(&["é", "é"], 1), ["", ""]);
    }
}
