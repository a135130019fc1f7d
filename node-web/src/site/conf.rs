//! `/conf`: the configuration that the node runs with (Hadoop: `ConfServlet`). Pure.

use hyper::StatusCode;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::answer::{Answer, JSON, answer, text};
use super::body::Body;
use super::target::Target;
use super::xml;

/// Type that `ConfServlet` gives its XML.
const TEXT_XML: &str = "text/xml; charset=utf-8";

/// A property with the value in force, made for display: without secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownProperty {
    /// Name.
    #[serde(rename = "key")]
    pub name: String,
    /// Value with its references expanded; `None`: a secret.
    #[serde(serialize_with = "value_or_mask")]
    pub value: Option<String>,
    /// Whether no later file can change it.
    #[serde(rename = "isFinal")]
    pub is_final: bool,
    /// Name of the file that sets it.
    #[serde(rename = "resource")]
    pub source: String,
}

/// Texts in place of a secret, in JSON and in XML (Hadoop: `ConfigRedactor`).
const MASK_JSON: &str = "<redacted>";
const MASK_XML: &str = "******";

fn value_or_mask<S: Serializer>(value: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.as_deref().unwrap_or(MASK_JSON))
}

/// Answers `/conf?name=NAME`, without a name with all properties: as JSON for a client whose
/// `Accept` names that, as XML for others.
pub(super) fn conf(properties: &[ShownProperty], target: &Target, accept: &str) -> Answer {
    let name = target.parameter("name").filter(|name| !name.is_empty());
    let found = |name: &str| properties.iter().find(|property| property.name == name);
    let json = accept.contains("json");
    match name.map(|name| (name, found(name))) {
        Some((name, None)) => {
            let why = format!("Property {name} not found\n");
            text(StatusCode::NOT_FOUND, why)
        }
        Some((_, Some(one))) if json => document(&json!({"property": one}).to_string()),
        Some((_, Some(one))) => xml_document(std::slice::from_ref(one)),
        None if json => document(&json!({"properties": properties}).to_string()),
        None => xml_document(properties),
    }
}

fn document(json: &str) -> Answer {
    answer(StatusCode::OK, JSON, Body::full(json.to_owned()))
}

fn xml_document(properties: &[ShownProperty]) -> Answer {
    let mut out = format!("{}<configuration>\n", xml::DECLARATION);
    for property in properties {
        out.push_str("<property>");
        for (name, value) in [
            ("name", property.name.as_str()),
            ("value", property.value.as_deref().unwrap_or(MASK_XML)),
            ("final", if property.is_final { "true" } else { "false" }),
            ("source", &property.source),
        ] {
            xml::text_element(name, value, &mut out);
        }
        out.push_str("</property>\n");
    }
    out.push_str("</configuration>");
    answer(StatusCode::OK, TEXT_XML, Body::full(out))
}
