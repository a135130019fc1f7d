//! Spans as OTLP's JSON (opentelemetry-proto 1: `ExportTraceServiceRequest`). Ids are hexadecimal
//! there, and numbers of 64 bits are texts.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use crate::span::{Span, Value};

/// Kind of a span that is neither a call nor its answer (`SPAN_KIND_INTERNAL`).
const INTERNAL: u32 = 1;
/// Status of what worked (`STATUS_CODE_OK`) and of what failed (`STATUS_CODE_ERROR`).
const OK: u32 = 1;
const ERROR: u32 = 2;

/// Returns the request with these spans of a node of this name.
pub(crate) fn document(host: &str, spans: &[Span]) -> String {
    let spans: Vec<_> = spans.iter().map(of_span).collect();
    json!({
        "resourceSpans": [{
            "resource": {"attributes": [
                attribute("service.name", &Value::Text("nm-agent".to_owned())),
                attribute("service.version", &Value::Text(env!("CARGO_PKG_VERSION").to_owned())),
                attribute("host.name", &Value::Text(host.to_owned())),
            ]},
            "scopeSpans": [{"scope": {"name": "nm-agent"}, "spans": spans}],
        }],
    })
    .to_string()
}

fn of_span(span: &Span) -> Json {
    let id = span.container.to_string();
    let application = span.container.application_id().to_string();
    let mut attributes = vec![
        attribute("container.id", &Value::Text(id)),
        attribute("yarn.application.id", &Value::Text(application)),
    ];
    let further = span.attributes.iter();
    attributes.extend(further.map(|(name, value)| attribute(name, value)));
    let parent = span.parent().map(|parent| hex(&parent.0));
    json!({
        "traceId": hex(&span.trace().0),
        "spanId": hex(&span.id().0),
        "parentSpanId": parent.unwrap_or_default(),
        "name": span.name,
        "kind": INTERNAL,
        "startTimeUnixNano": span.begin_ns.to_string(),
        "endTimeUnixNano": span.end_ns.to_string(),
        "attributes": attributes,
        "status": {"code": if span.has_failed { ERROR } else { OK }},
    })
}

fn attribute(name: &str, value: &Value) -> Json {
    let value = match value {
        Value::Text(text) => json!({"stringValue": text}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
    };
    json!({"key": name, "value": value})
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
