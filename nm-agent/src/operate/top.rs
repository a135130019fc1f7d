//! Screen of `nm-agent top`: lines of text for a terminal of any size. Pure.

use std::cmp::Reverse;

use node_view::operator::{Queue, Running, Status};
use node_view::overview::words::{duration, number};

use super::table::Table;
use super::{printable, status_text};

/// Order of the containers. Those that run come before those that wait in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Running containers by id, waiting ones by their place.
    #[default]
    Place,
    /// The longest in their state first.
    Time,
    /// The largest in memory first.
    Memory,
}

impl Order {
    /// Returns the order that follows when the reader asks for another.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Place => Self::Time,
            Self::Time => Self::Memory,
            Self::Memory => Self::Place,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::Time => "time",
            Self::Memory => "memory",
        }
    }
}

/// State of the node at one moment.
#[derive(Clone, Debug)]
pub struct Look {
    /// Numbers of the node.
    pub status: Status,
    /// Containers that run.
    pub running: Running,
    /// Containers that wait.
    pub queue: Queue,
}

/// Row of the table, with what it is ordered by.
struct Row {
    waits: bool,
    time_ms: u64,
    memory_mb: u64,
    cells: Vec<String>,
}

/// Returns the whole look as lines, however many.
#[must_use]
pub fn lines(look: &Look, order: Order) -> Vec<String> {
    let mut lines: Vec<String> = status_text(&look.status)
        .lines()
        .map(str::to_owned)
        .collect();
    lines.push(String::new());
    let mut rows = rows(look);
    match order {
        Order::Place => {}
        Order::Time => rows.sort_by_key(|row| (row.waits, Reverse(row.time_ms))),
        Order::Memory => rows.sort_by_key(|row| (row.waits, Reverse(row.memory_mb))),
    }
    let mut table = Table::new(&[
        "container",
        "user",
        "type",
        "MiB",
        "vcores",
        "state",
        "for",
        "estimate",
    ]);
    for row in rows {
        table.push(row.cells);
    }
    lines.extend(table.to_string().lines().map(str::to_owned));
    let listed = look.running.containers.len() + look.queue.containers.len();
    let more = (look.running.total + look.queue.total).saturating_sub(listed);
    if more > 0 {
        lines.push(format!("and {} more", number(more as u64)));
    }
    lines
}

fn rows(look: &Look) -> Vec<Row> {
    let running = look.running.containers.iter().map(|each| Row {
        waits: false,
        time_ms: each.state_for_ms,
        memory_mb: each.memory_mb,
        cells: vec![
            each.container.clone(),
            printable(&each.user),
            each.execution_type.to_lowercase(),
            number(each.memory_mb),
            each.vcores.to_string(),
            each.state.clone(),
            duration(each.state_for_ms),
            String::new(),
        ],
    });
    let waiting = look.queue.containers.iter().map(|each| Row {
        waits: true,
        time_ms: each.waited_ms,
        memory_mb: each.memory_mb,
        cells: vec![
            each.container.clone(),
            printable(&each.user),
            each.execution_type.to_lowercase(),
            number(each.memory_mb),
            each.vcores.to_string(),
            if each.paused { "paused" } else { "queued" }.to_owned(),
            duration(each.waited_ms),
            duration(each.estimated_wait_ms),
        ],
    });
    running.chain(waiting).collect()
}

/// Returns the lines that fit a terminal: the beginning of the look, and below it one line about
/// the keys or, in their place, about what is wrong. No line is longer than `columns` characters.
#[must_use]
pub fn screen(
    look: &Look,
    order: Order,
    trouble: Option<&str>,
    (columns, rows): (u16, u16),
) -> Vec<String> {
    let keys = format!("q quit, s sort (now by {})", order.as_str());
    let last = trouble.map_or(keys, printable);
    let room = usize::from(rows).saturating_sub(1);
    let mut lines = lines(look, order);
    lines.truncate(room);
    lines.resize(room, String::new());
    if rows > 0 {
        lines.push(last);
    }
    let columns = usize::from(columns);
    for line in &mut lines {
        if let Some((end, _)) = line.char_indices().nth(columns) {
            line.truncate(end);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use node_view::operator::Holding;

    use super::*;
    use crate::operate::tests::{status, waiting};

    fn running(number: u64) -> Holding {
        Holding {
            container: format!("container_1_0001_01_00010{number}"),
            user: "bob".to_owned(),
            execution_type: "GUARANTEED".to_owned(),
            memory_mb: 512 * number,
            vcores: 1,
            state: "running".to_owned(),
            state_for_ms: 100_000 - number,
        }
    }

    fn look() -> Look {
        Look {
            status: status(),
            running: Running {
                total: 2,
                containers: vec![running(1), running(2)],
            },
            queue: Queue {
                total: 7,
                containers: vec![waiting(1), waiting(2)],
            },
        }
    }

    fn order_of(order: Order) -> Vec<String> {
        let lines = lines(&look(), order);
        let rows = lines
            .iter()
            .filter_map(|line| line.strip_prefix("container_1_0001_01_"));
        rows.map(|row| row[..6].to_owned()).collect()
    }

    #[test]
    fn what_runs_comes_before_what_waits_in_every_order() {
        let by_place = ["000101", "000102", "000001", "000002"];
        assert_eq!(order_of(Order::Place), by_place);
        assert_eq!(order_of(Order::Time), by_place);
        let by_memory = ["000102", "000101", "000001", "000002"];
        assert_eq!(order_of(Order::Memory), by_memory);
        assert_eq!(Order::Place.next().next().next(), Order::Place);
        assert!(lines(&look(), Order::Place).contains(&"and 5 more".to_owned()));
    }

    #[test]
    fn every_size_of_a_terminal_is_filled_and_not_exceeded() {
        for columns in [0, 1, 20, 80, 500] {
            for rows in [0, 1, 2, 10, 24, 100] {
                let screen = screen(&look(), Order::Place, None, (columns, rows));
                assert_eq!(screen.len(), usize::from(rows));
                let widest = screen.iter().map(|line| line.chars().count()).max();
                assert!(widest.unwrap_or(0) <= usize::from(columns));
            }
        }
    }

    #[test]
    fn trouble_takes_the_place_of_the_keys() {
        let shown = screen(&look(), Order::Time, None, (80, 24));
        assert_eq!(shown[23], "q quit, s sort (now by time)");
        let shown = screen(&look(), Order::Time, Some("no agent\u{7}"), (80, 24));
        assert_eq!(shown[23], "no agent\\u{7}");
    }
}
