//! The answer to `nm-agent reload`.

use node_admin::message::{ChangedSetting, Reload};

use super::printable;

/// Text of `nm-agent reload`.
#[must_use]
pub fn reload_text(reload: &Reload) -> String {
    if reload.applied.is_empty() && reload.refused.is_empty() {
        return "The configuration has not changed.\n".to_owned();
    }
    let mut text = String::new();
    for change in &reload.applied {
        text.push_str(&format!("in effect  {}\n", change_words(change)));
    }
    for change in &reload.refused {
        let reason = change.reason.as_deref().unwrap_or("refused");
        text.push_str(&format!("refused    {}: {reason}\n", change_words(change)));
    }
    text
}

/// Returns the name with both values; the name alone of something without values.
fn change_words(change: &ChangedSetting) -> String {
    let ChangedSetting {
        property, old, new, ..
    } = change;
    let name = printable(property);
    if old.is_none() && new.is_none() {
        return name;
    }
    let words = |value: &Option<String>| match value.as_deref() {
        None => "nothing".to_owned(),
        Some("") => "empty".to_owned(),
        Some(text) => printable(text),
    };
    format!("{name}, from {} to {}", words(old), words(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(property: &str, old: Option<&str>, reason: Option<&str>) -> ChangedSetting {
        ChangedSetting {
            property: property.to_owned(),
            old: old.map(str::to_owned),
            new: old.map(|_| "2\u{1b}".to_owned()),
            reason: reason.map(str::to_owned),
        }
    }

    #[test]
    fn each_change_is_a_line_with_its_values_and_reason() {
        let reload = Reload {
            applied: vec![change("a.b", Some("1"), None)],
            refused: vec![
                change("c", Some(""), Some("takes effect at the next start")),
                change("file", None, Some("takes effect at the next start")),
            ],
        };
        assert_eq!(
            reload_text(&reload),
            "in effect  a.b, from 1 to 2\\u{1b}\n\
             refused    c, from empty to 2\\u{1b}: takes effect at the next start\n\
             refused    file: takes effect at the next start\n"
        );
        let nothing = Reload {
            applied: Vec::new(),
            refused: Vec::new(),
        };
        assert_eq!(
            reload_text(&nothing),
            "The configuration has not changed.\n"
        );
    }
}
