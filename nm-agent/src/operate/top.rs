//! Screen of `nm-agent top`: lines of text for a terminal of any size. Pure.

use std::cmp::Reverse;

use node_view::operator::{Holding, Queue, Running, Status};
use node_view::overview::words::{duration, number};
use node_view::usage::{Used, UsedBy};

use super::table::Table;
use super::use_words::stalled_words;
use super::{printable, status_text};

/// Order of the rows. Containers that run come before those that wait in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Running containers by id, waiting ones by their place.
    #[default]
    Place,
    /// The longest in their state first.
    Time,
    /// The most memory in use first.
    Memory,
    /// The most CPUs kept busy first.
    Cpu,
}

impl Order {
    /// Returns the order that follows when the reader asks for another.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Place => Self::Time,
            Self::Time => Self::Memory,
            Self::Memory => Self::Cpu,
            Self::Cpu => Self::Place,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::Time => "time",
            Self::Memory => "memory",
            Self::Cpu => "CPU",
        }
    }
}

/// Subject of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rows {
    /// Containers that run or wait.
    #[default]
    Containers,
    /// Applications with a container that runs.
    Applications,
}

impl Rows {
    /// Returns the other subject.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Containers => Self::Applications,
            Self::Applications => Self::Containers,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Containers => "containers",
            Self::Applications => "applications",
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
    cpu_millis: u32,
    cells: Vec<String>,
}

/// Returns the whole look as lines, however many.
#[must_use]
pub fn lines(look: &Look, order: Order, subject: Rows) -> Vec<String> {
    let mut lines: Vec<String> = status_text(&look.status)
        .lines()
        .map(str::to_owned)
        .collect();
    lines.push(String::new());
    let (head, mut rows) = match subject {
        Rows::Containers => (&CONTAINER_COLUMNS[..], container_rows(look)),
        Rows::Applications => (&APPLICATION_COLUMNS[..], application_rows(look)),
    };
    match order {
        Order::Place => {}
        Order::Time => rows.sort_by_key(|row| (row.waits, Reverse(row.time_ms))),
        Order::Memory => rows.sort_by_key(|row| (row.waits, Reverse(row.memory_mb))),
        Order::Cpu => rows.sort_by_key(|row| (row.waits, Reverse(row.cpu_millis))),
    }
    let mut table = Table::new(head);
    for row in rows {
        table.push(row.cells);
    }
    lines.extend(table.to_string().lines().map(str::to_owned));
    if subject == Rows::Containers {
        let listed = look.running.containers.len() + look.queue.containers.len();
        let more = (look.running.total + look.queue.total).saturating_sub(listed);
        if more > 0 {
            lines.push(format!("and {} more", number(more as u64)));
        }
    }
    lines
}

/// Columns with what is in use stand beside those with what was asked. Memory and bytes are in
/// mebibytes.
const CONTAINER_COLUMNS: [&str; 14] = [
    "container",
    "user",
    "type",
    "MiB",
    "used",
    "peak",
    "vcores",
    "busy",
    "read",
    "written",
    "stalled",
    "state",
    "for",
    "estimate",
];

const APPLICATION_COLUMNS: [&str; 9] = [
    "application",
    "containers",
    "MiB",
    "used",
    "vcores",
    "busy",
    "read",
    "written",
    "stalled",
];

fn container_rows(look: &Look) -> Vec<Row> {
    let running = look.running.containers.iter().map(running_row);
    let waiting = look.queue.containers.iter().map(|each| Row {
        waits: true,
        time_ms: each.waited_ms,
        memory_mb: each.memory_mb,
        cpu_millis: 0,
        cells: vec![
            each.container.clone(),
            printable(&each.user),
            each.execution_type.to_lowercase(),
            number(each.memory_mb),
            String::new(),
            String::new(),
            each.vcores.to_string(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            if each.paused { "paused" } else { "queued" }.to_owned(),
            duration(each.waited_ms),
            duration(each.estimated_wait_ms),
        ],
    });
    running.chain(waiting).collect()
}

fn running_row(each: &Holding) -> Row {
    let used = each.used.as_ref();
    let peak = used.and_then(|used| used.memory_peak_mb);
    Row {
        waits: false,
        time_ms: each.state_for_ms,
        memory_mb: used.map_or(0, |used| used.memory_mb),
        cpu_millis: used.map_or(0, |used| used.cpu_millis),
        cells: vec![
            each.container.clone(),
            printable(&each.user),
            each.execution_type.to_lowercase(),
            number(each.memory_mb),
            used.map_or_else(String::new, |used| number(used.memory_mb)),
            peak.map_or_else(String::new, number),
            each.vcores.to_string(),
            used.map_or_else(String::new, Used::cpus),
            amount(used.and_then(|used| used.read_mb)),
            amount(used.and_then(|used| used.written_mb)),
            used.map_or_else(String::new, stalled_words),
            each.state.clone(),
            duration(each.state_for_ms),
            String::new(),
        ],
    }
}

fn application_rows(look: &Look) -> Vec<Row> {
    let usage = look.status.usage.as_ref();
    let applications = usage.map_or(&[][..], |usage| &usage.applications);
    let row = |each: &UsedBy| Row {
        waits: false,
        time_ms: 0,
        memory_mb: each.used.memory_mb,
        cpu_millis: each.used.cpu_millis,
        cells: vec![
            each.id.clone(),
            each.used.containers.to_string(),
            number(each.used.memory_asked_mb),
            number(each.used.memory_mb),
            each.used.vcores_asked.to_string(),
            each.used.cpus(),
            amount(each.used.read_mb),
            amount(each.used.written_mb),
            stalled_words(&each.used),
        ],
    };
    applications.iter().map(row).collect()
}

fn amount(mebibytes: Option<u64>) -> String {
    mebibytes.map_or_else(String::new, number)
}

/// Returns the lines that fit a terminal: the beginning of the look, and below it one line about
/// the keys or, in their place, about what is wrong. No line is longer than `columns` characters.
#[must_use]
pub fn screen(
    look: &Look,
    (order, subject): (Order, Rows),
    trouble: Option<&str>,
    (columns, rows): (u16, u16),
) -> Vec<String> {
    let keys = format!(
        "q quit, s sort (now by {}), a {}",
        order.as_str(),
        subject.other().as_str()
    );
    let last = trouble.map_or(keys, printable);
    let room = usize::from(rows).saturating_sub(1);
    let mut lines = lines(look, order, subject);
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
            used: Some(Used {
                containers: 1,
                memory_asked_mb: 512 * number,
                memory_mb: 90 * number,
                memory_peak_mb: Some(91 * number),
                cpu_millis: 250,
                read_mb: Some(3),
                ..Used::default()
            }),
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
        let lines = lines(&look(), order, Rows::Containers);
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
        assert_eq!(order_of(Order::Cpu), by_place);
        assert_eq!(Order::Place.next().next().next().next(), Order::Place);
        let lines = lines(&look(), Order::Place, Rows::Containers);
        assert!(lines.contains(&"and 5 more".to_owned()));
    }

    #[test]
    fn every_size_of_a_terminal_is_filled_and_not_exceeded() {
        for columns in [0, 1, 20, 80, 500] {
            for rows in [0, 1, 2, 10, 24, 100] {
                let screen = screen(
                    &look(),
                    (Order::Place, Rows::Containers),
                    None,
                    (columns, rows),
                );
                assert_eq!(screen.len(), usize::from(rows));
                let widest = screen.iter().map(|line| line.chars().count()).max();
                assert!(widest.unwrap_or(0) <= usize::from(columns));
            }
        }
    }

    /// Returns the words of the only row that has `word`.
    fn row(lines: &[String], word: &str) -> Vec<String> {
        let mut rows = lines.iter().filter(|line| line.contains(word));
        let row = rows
            .next()
            .unwrap_or_else(|| panic!("{word} is not in {lines:#?}"));
        row.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_used_stands_beside_what_was_asked() {
        let lines_of = |subject| lines(&look(), Order::Place, subject);
        let all = lines_of(Rows::Containers);
        let expected = [
            "container_1_0001_01_000101",
            "bob",
            "guaranteed",
            "512",
            "90",
            "91",
            "1",
            "0.25",
            "3",
        ];
        assert_eq!(row(&all, "_000101")[..9], expected);
        assert!(
            !lines_of(Rows::Applications)
                .iter()
                .any(|line| line.contains("_000101"))
        );
    }

    #[test]
    fn applications_have_rows_of_their_own() {
        let mut look = look();
        let used = Used {
            containers: 3,
            memory_asked_mb: 1_536,
            memory_mb: 270,
            vcores_asked: 3,
            ..Used::default()
        };
        look.status.usage = Some(node_view::usage::Usage {
            at_ms: 0,
            machine_memory_mb: 0,
            all: used.clone(),
            applications: vec![UsedBy {
                id: "application_1_0001".to_owned(),
                used,
            }],
            containers: Vec::new(),
        });
        let lines = lines(&look, Order::Memory, Rows::Applications);
        let expected = ["application_1_0001", "3", "1,536", "270", "3", "0.00"];
        assert_eq!(row(&lines, "application_1_0001"), expected);
    }

    #[test]
    fn trouble_takes_the_place_of_the_keys() {
        let shown = screen(&look(), (Order::Time, Rows::Containers), None, (80, 24));
        assert_eq!(shown[23], "q quit, s sort (now by time), a applications");
        let shown = screen(
            &look(),
            (Order::Time, Rows::Containers),
            Some("no agent\u{7}"),
            (80, 24),
        );
        assert_eq!(shown[23], "no agent\\u{7}");
    }
}
