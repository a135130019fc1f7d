//! Answers of the running agent as text for a terminal. Pure.

mod explanation;
mod reload;
mod story;
mod table;
pub mod top;
mod use_words;

use node_view::operator::{DrainMode, DrainState, Queue, Share, Status, Waiting};
use node_view::overview::words::{duration, number};

pub use self::explanation::{application_text, explanation_text};
pub use self::reload::reload_text;
pub use self::story::Story;
use self::table::Table;
use self::use_words::usage_words;

/// Names of facts are padded to this many columns.
const NAME_COLUMNS: usize = 18;

/// Text of `nm-agent status`.
#[must_use]
pub fn status_text(status: &Status) -> String {
    let drained = status.drain.as_ref();
    let facts = [
        ("node", node_words(status)),
        ("agent", agent_words(status)),
        ("ResourceManager", contact_words(status)),
        ("health", health_words(status)),
        ("drained", drained.map_or("no".to_owned(), drain_words)),
        ("memory", share_words(status.memory_mb, " MiB")),
        ("vcores", share_words(status.vcores, "")),
        ("in use", usage_words(status)),
        ("running", running_words(status)),
        ("waiting", waiting_words(status)),
    ];
    // A line only where there is something to say.
    let recovery = ("recovery", status.recovery.clone());
    let recovery = (!status.recovery.is_empty()).then_some(recovery);
    let facts = facts.into_iter().chain(recovery);
    let lines = facts.map(|(name, value)| format!("{name:<NAME_COLUMNS$}{value}\n"));
    lines.collect()
}

fn node_words(status: &Status) -> String {
    let Status {
        node_id,
        web_address,
        web_over_tls,
        ..
    } = status;
    let scheme = if *web_over_tls { "https" } else { "http" };
    format!("{node_id}, pages at {scheme}://{web_address}/")
}

fn agent_words(status: &Status) -> String {
    let Status { version, pid, .. } = status;
    let up_ms = u64::try_from(status.at_ms - status.started_at_ms).unwrap_or(0);
    format!("version {version}, process {pid}, up {}", duration(up_ms))
}

fn contact_words(status: &Status) -> String {
    let contact = match status.resource_manager.as_str() {
        "registered" => "registered",
        "silent" => "registered, but heartbeats are not answered",
        _ => "registering",
    };
    let for_ms = status.resource_manager_for_ms;
    format!("{contact} for {}", duration(for_ms))
}

fn health_words(status: &Status) -> String {
    let word = if status.healthy {
        "healthy"
    } else {
        "unhealthy"
    };
    if status.health_report.is_empty() {
        word.to_owned()
    } else {
        format!("{word}: {}", printable(&status.health_report))
    }
}

fn share_words(share: Share, unit: &str) -> String {
    let (used, total) = (number(share.used), number(share.total));
    format!("{used} of {total}{unit} allocated")
}

fn running_words(status: &Status) -> String {
    format!(
        "{} guaranteed, {} opportunistic",
        status.running_guaranteed, status.running_opportunistic
    )
}

fn waiting_words(status: &Status) -> String {
    let mut words = number(status.waiting.into());
    if status.paused > 0 {
        words.push_str(&format!(
            ", {} of them paused",
            number(status.paused.into())
        ));
    }
    words.push_str(&format!(
        "; the queue takes {}",
        number(status.queue_capacity.into())
    ));
    if let Some(limit) = status.queue_limit {
        words.push_str(&format!(
            ", the ResourceManager allows {}",
            number(limit as u64)
        ));
    }
    if let Some(limit_ms) = status.wait_limit_ms {
        words.push_str(&format!(
            ", the ResourceManager allows a wait of {}",
            duration(limit_ms)
        ));
    }
    match status.estimated_wait_ms {
        Some(wait_ms) => words.push_str(&format!("; one more would wait {}", duration(wait_ms))),
        None => words.push_str("; one more would be rejected"),
    }
    words
}

/// Text of `nm-agent drain`.
#[must_use]
pub fn drain_text(state: &DrainState) -> String {
    let mut text = format!("{:<NAME_COLUMNS$}{}\n", "drained", drain_words(state));
    if state.guaranteed_left > 0 && state.mode != DrainMode::Fast {
        text.push_str(
            "Guaranteed containers go on, and the ResourceManager may place more here until the \
             node is\ndecommissioned there (yarn rmadmin -refreshNodes -g).\n",
        );
    }
    text
}

fn drain_words(state: &DrainState) -> String {
    let DrainState {
        mode,
        reason,
        by,
        guaranteed_left,
        opportunistic_left,
        ..
    } = state;
    let mut words = format!("{}, by {}", mode.as_str(), printable(by));
    if !reason.is_empty() {
        words.push_str(&format!(": {}", printable(reason)));
    }
    words.push_str(&format!(
        "; {opportunistic_left} opportunistic and {guaranteed_left} guaranteed containers are left"
    ));
    let ends_in_ms = state.ends_at_ms.map(|at| at - state.since_ms);
    match ends_in_ms.and_then(|millis| u64::try_from(millis).ok()) {
        Some(ends_in_ms) if !state.is_ending => {
            let time = duration(ends_in_ms);
            words.push_str(&format!(
                ", with {time} from the order to end by themselves"
            ));
        }
        Some(_) | None => {}
    }
    words
}

/// Text of `nm-agent queue`.
#[must_use]
pub fn queue_text(queue: &Queue) -> String {
    if queue.total == 0 {
        return "Nothing waits.\n".to_owned();
    }
    let mut table = Table::new(&[
        "place",
        "container",
        "user",
        "type",
        "MiB",
        "vcores",
        "waited",
        "estimate",
    ]);
    for each in &queue.containers {
        table.push(row(each));
    }
    let more = queue.total.saturating_sub(queue.containers.len());
    let mut text = table.to_string();
    if more > 0 {
        text.push_str(&format!("and {} more\n", number(more as u64)));
    }
    text
}

fn row(waiting: &Waiting) -> Vec<String> {
    let kind = if waiting.paused {
        format!("{}, paused", waiting.execution_type.to_lowercase())
    } else {
        waiting.execution_type.to_lowercase()
    };
    vec![
        waiting.place.to_string(),
        waiting.container.clone(),
        printable(&waiting.user),
        kind,
        number(waiting.memory_mb),
        waiting.vcores.to_string(),
        duration(waiting.waited_ms),
        duration(waiting.estimated_wait_ms),
    ]
}

/// Returns a text that peers chose with its control characters escaped, so that it cannot steer a
/// terminal.
fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            safe.extend(character.escape_unicode());
        } else {
            safe.push(character);
        }
    }
    safe
}

#[cfg(test)]
mod tests;
