//! `/jmx`: beans by their names (Hadoop: `JMXJsonServlet`). Pure.

use hyper::StatusCode;
use serde_json::{Map, Value, json};

use super::answer::{Answer, JSON, answer};
use super::body::Body;
use super::target::Target;

/// A bean: named values of one subject.
#[derive(Debug)]
pub(super) struct Bean {
    name: String,
    modeler_type: String,
    attributes: Vec<(String, Value)>,
}

impl Bean {
    pub(super) fn new(
        name: impl Into<String>,
        modeler_type: impl Into<String>,
        attributes: impl IntoIterator<Item = (String, Value)>,
    ) -> Self {
        Self {
            name: name.into(),
            modeler_type: modeler_type.into(),
            attributes: attributes.into_iter().collect(),
        }
    }

    /// Returns the document, with the attribute of this name or all.
    pub(super) fn document(&self, only: Option<&str>) -> Value {
        let mut document = Map::from_iter([
            ("name".to_owned(), json!(self.name)),
            ("modelerType".to_owned(), json!(self.modeler_type)),
        ]);
        let wanted = |name: &str| only.is_none_or(|only| only == name);
        let attributes = self.attributes.iter().filter(|(name, _)| wanted(name));
        document.extend(attributes.cloned());
        Value::Object(document)
    }

    fn has(&self, attribute: &str) -> bool {
        self.attributes.iter().any(|(name, _)| name == attribute)
    }
}

/// Answers `/jmx?qry=PATTERN` or `/jmx?get=BEAN::ATTRIBUTE`; without either, with all beans.
pub(super) fn jmx(beans: &[Bean], target: &Target) -> Answer {
    let Some(wanted) = target.parameter("get") else {
        let pattern = target.parameter("qry").unwrap_or_default();
        let found = beans.iter().filter(|bean| matches(pattern, &bean.name));
        let found: Vec<_> = found.map(|bean| bean.document(None)).collect();
        return document(StatusCode::OK, &json!({"beans": found}));
    };
    let Some((name, attribute)) = wanted.split_once("::") else {
        let why = json!({"result": "ERROR", "message": "query format is not as expected."});
        return document(StatusCode::BAD_REQUEST, &why);
    };
    match beans.iter().find(|bean| bean.name == name) {
        Some(bean) if bean.has(attribute) => {
            let found = [bean.document(Some(attribute))];
            document(StatusCode::OK, &json!({"beans": found}))
        }
        Some(bean) => {
            let why = format!("No attribute with name {attribute} was found.");
            let found = json!({
                "name": bean.name,
                "modelerType": bean.modeler_type,
                "result": "ERROR",
                "message": why,
            });
            document(StatusCode::NOT_FOUND, &json!({"beans": [found]}))
        }
        None => document(StatusCode::OK, &json!({"beans": []})),
    }
}

/// Whether a pattern of names, with at most one `*` that counts, is one of the bean. An empty one
/// is of all, as in Java.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern.is_empty() || pattern == name,
        Some((begin, end)) => {
            let end = end.trim_start_matches([':', ',', '*']);
            name.starts_with(begin) && name.ends_with(end)
        }
    }
}

fn document(status: StatusCode, document: &Value) -> Answer {
    answer(status, JSON, Body::full(document.to_string()))
}
