//! HTTP as the tests need it: one request at a time, the answer in memory, any status an answer.

use std::time::Duration;

use serde_json::Value;

/// Deadline of one request, after which a server counts as absent. A Java server that loads its
/// classes for the first request takes many seconds on a busy machine.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Limit of an answer's body, in bytes: more than any page or log file of a test has.
const BODY_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// An answer with any status.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status, 200 for success.
    pub status: u16,
    /// Body as text; bytes that are not UTF-8 are replaced.
    pub body: String,
}

/// Gets `url`, following redirects.
///
/// # Errors
/// When no answer comes.
pub fn get(url: &str) -> Result<Answer, String> {
    get_accepting(url, "*/*")
}

/// Gets `url` in a form that the header `Accept` names.
///
/// # Errors
/// When no answer comes.
pub fn get_accepting(url: &str, accept: &str) -> Result<Answer, String> {
    answer(url, agent().get(url).header("Accept", accept).call())
}

/// Gets `url` as JSON.
///
/// # Errors
/// When no answer comes, its status is not 200, or its body is not JSON.
pub fn get_json(url: &str) -> Result<Value, String> {
    let answer = answer(
        url,
        agent().get(url).header("Accept", "application/json").call(),
    )?;
    if answer.status != 200 {
        return Err(format!("{url} answered {}: {}", answer.status, answer.body));
    }
    parse(url, &answer.body)
}

/// Posts JSON to `url`.
///
/// # Errors
/// When no answer comes.
pub fn post(url: &str, body: &Value) -> Result<Answer, String> {
    let request = agent().post(url).header("Content-Type", "application/json");
    answer(
        url,
        request
            .header("Accept", "application/json")
            .send(body.to_string()),
    )
}

/// Puts JSON to `url`.
///
/// # Errors
/// When no answer comes.
pub fn put(url: &str, body: &Value) -> Result<Answer, String> {
    let request = agent().put(url).header("Content-Type", "application/json");
    answer(
        url,
        request
            .header("Accept", "application/json")
            .send(body.to_string()),
    )
}

/// Parses the body of an answer from `url`.
///
/// # Errors
/// When the body is not JSON.
pub fn parse(url: &str, body: &str) -> Result<Value, String> {
    serde_json::from_str(body)
        .map_err(|error| format!("{url} answered something else than JSON ({error}): {body}"))
}

/// Returns a client with a connection per request: a pooled one would outlive a server that the
/// test restarts.
fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .timeout_global(Some(REQUEST_TIMEOUT))
        .http_status_as_error(false)
        .build()
        .new_agent()
}

fn answer(
    url: &str,
    reply: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<Answer, String> {
    let mut reply = reply.map_err(|error| format!("{url}: {error}"))?;
    let status = reply.status().as_u16();
    let body = reply
        .body_mut()
        .with_config()
        .limit(BODY_BYTES_MAX)
        .lossy_utf8(true)
        .read_to_string();
    Ok(Answer {
        status,
        body: body.map_err(|error| format!("{url}: {error}"))?,
    })
}
