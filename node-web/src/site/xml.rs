//! The XML form of a REST answer: each key of the JSON form is an element, each item of a list one
//! element of the list's name. That is how Hadoop's two forms relate. Pure.

use maud::html;
use serde_json::Value;

/// First words of a document.
pub(super) const DECLARATION: &str =
    "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>";

/// The document of a value that is an object with one key, the root element's name.
pub(super) fn document(value: &Value) -> String {
    let mut out = DECLARATION.to_owned();
    members(value, &mut out);
    out
}

/// The depth is that of this crate's own answers: none nests more than five levels.
fn members(value: &Value, out: &mut String) {
    if let Value::Object(members) = value {
        for (name, member) in members {
            element(name, member, out);
        }
    }
}

fn element(name: &str, value: &Value, out: &mut String) {
    match value {
        Value::Null => {}
        Value::Array(items) => items.iter().for_each(|item| element(name, item, out)),
        Value::Object(fields) if fields.is_empty() => {
            out.push('<');
            out.push_str(name);
            out.push_str("/>");
        }
        Value::Object(_) => tagged(name, out, |out| members(value, out)),
        Value::String(text) => text_element(name, text, out),
        Value::Bool(_) | Value::Number(_) => {
            tagged(name, out, |out| out.push_str(&value.to_string()));
        }
    }
}

/// An element with a text.
pub(super) fn text_element(name: &str, text: &str, out: &mut String) {
    tagged(name, out, |out| out.push_str(&character_data(text)));
}

fn tagged(name: &str, out: &mut String, content: impl FnOnce(&mut String)) {
    out.push('<');
    out.push_str(name);
    out.push('>');
    content(out);
    out.push_str("</");
    out.push_str(name);
    out.push('>');
}

/// XML 1.0 has no way to write most control characters; a reader would refuse the whole document.
fn character_data(text: &str) -> String {
    let allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    let text: String = text
        .chars()
        .map(|c| {
            if allowed(c) {
                c
            } else {
                char::REPLACEMENT_CHARACTER
            }
        })
        .collect();
    // The marks of HTML that maud escapes are XML's.
    html! { (text) }.into_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_without_members_is_an_empty_element() {
        let empty = document(&json!({"apps": {}}));
        assert!(empty.ends_with("<apps/>"), "{empty}");
        let text = document(&json!({"a": {"healthReport": ""}}));
        assert!(
            text.ends_with("<healthReport></healthReport></a>"),
            "{text}"
        );
    }

    #[test]
    fn lists_become_repeated_elements_and_texts_are_escaped() {
        let value = json!({"apps": {"app": [{"id": "<1>", "n": 1}, {"id": "\u{1b}", "n": null}]}});
        assert_eq!(
            document(&value),
            "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\
             <apps><app><id>&lt;1&gt;</id><n>1</n></app><app><id>\u{fffd}</id></app></apps>"
        );
    }
}
