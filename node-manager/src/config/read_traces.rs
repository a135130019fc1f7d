//! Properties to sections: the collector of traces.

use hadoop_conf::{Expected, PropertyReader};
use records::error_chain;
use traces::Endpoint;

/// Name of the property.
const ENDPOINT: &str = "yarn.nodemanager.agent.traces.endpoint";

/// Reads the collector's address; `None`: no traces are made.
pub(super) fn traces(reader: &mut PropertyReader<'_>) -> Option<Endpoint> {
    let text = reader.text(ENDPOINT).filter(|text| !text.is_empty())?;
    match text.parse() {
        Ok(endpoint) => Some(endpoint),
        Err(error) => {
            let rule = error_chain(&error);
            reader.problem(ENDPOINT, Expected::Rule(rule.into()));
            None
        }
    }
}
