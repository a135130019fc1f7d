//! Texts without what differs between two runs: ids, ports, folders, times.

/// Forms of numbers that differ between two runs, with the names that stand for them. `#` is a
/// digit, `@` a letter, `+` a sign. The first that fits wins.
const FORMS: [(&str, &str); 5] = [
    ("####-##-## ##:##:##.###", "<time>"),
    ("####-##-##T##:##:##.###", "<time>"),
    ("@@@ @@@ ## ##:##:## +#### ####", "<date>"),
    ("@@@ @@@ ## ##:##:## @@@ ####", "<date>"),
    ("1############", "<ms>"),
];

/// Texts of one run with their common names, replaced before the forms of numbers.
#[derive(Debug, Default)]
pub(crate) struct Masks(Vec<(String, &'static str)>);

impl Masks {
    /// Replaces this text by `name`.
    pub(crate) fn text(&mut self, text: &str, name: &'static str) -> &mut Self {
        self.0.push((text.to_owned(), name));
        self
    }

    /// Returns `text` with all masks applied, and without frames of Java's stacks.
    pub(crate) fn apply(&self, text: &str) -> String {
        let lines = text.lines().filter(|line| !is_frame(line));
        let text = lines.collect::<Vec<_>>().join("\n");
        let replace = |text: String, (from, to): &(String, &str)| text.replace(from, to);
        let text = self.0.iter().fold(text, replace);
        let mut masked = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(next) = rest.chars().next() {
            let form = FORMS.iter().find(|(form, _)| starts_with(rest, form));
            if let Some((form, name)) = form {
                masked += name;
                rest = &rest[form.len()..];
            } else {
                masked.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
        masked
    }
}

fn is_frame(line: &str) -> bool {
    line.starts_with("\tat ") || line.starts_with("\t... ")
}

fn starts_with(text: &str, form: &str) -> bool {
    text.len() >= form.len()
        && text
            .bytes()
            .zip(form.bytes())
            .all(|(byte, form)| match form {
                b'#' => byte.is_ascii_digit(),
                b'@' => byte.is_ascii_alphabetic(),
                b'+' => matches!(byte, b'+' | b'-'),
                exact => byte == exact,
            })
}

#[test]
fn times_and_names_are_masked_and_other_numbers_are_not() {
    let mut masks = Masks::default();
    masks.text("/tmp/x", "<folder>");
    assert_eq!(
        masks.apply(
            "[2026-11-22 17:07:47.123]in /tmp/x: 7, 1700000000000, Tue Nov 14 22:13:20 +0000 2023é"
        ),
        "[<time>]in <folder>: 7, <ms>, <date>é"
    );
}
