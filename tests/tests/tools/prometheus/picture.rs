//! The dashboard with the answers of a real Prometheus, drawn for the picture in README.md.
//! Grafana, which no distribution packages, draws the same queries.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use test_support::LaunchContext;
use tests::browser::Browser;
use tests::prometheus::Prometheus;
use tests::{require, wait};

use super::{Node, SCRAPE_DEADLINE, dashboards, let_things_happen, without_variables};
use crate::page::picture::{folder, save};

/// Time that the picture shows, when one is written. A test that only draws takes what there is.
const LENGTH: Duration = Duration::from_secs(90);

/// Size of a panel's drawing, and of a unit of Grafana's grid, whose width has 24, in CSS pixels.
const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 90.0;
const UNIT: u32 = 17;
const COLOURS: [&str; 6] = [
    "#1f6fb2", "#d1730f", "#2f8f46", "#b23a48", "#7a52a5", "#5b6770",
];

/// A quantity over time: a name, and pairs of seconds and value.
type Line = (String, Vec<(f64, f64)>);

#[test]
fn every_panel_of_the_dashboard_is_drawn() {
    require!(prometheus);
    require!(chromium);
    let node = Node::start();
    let server = Prometheus::start(&[node.web_port()], &dashboards().join("alerts.yml"));
    let begin = Instant::now();
    // What has happened before the first scrape has no rate.
    wait::until("a scrape of the agent", SCRAPE_DEADLINE, || {
        let up = server.query("up == 1")?;
        wait::check(up.len() == 1, up.len().to_string()).map(drop)
    });
    let_things_happen(&node.cluster);
    if folder().is_some() {
        keep_busy(&node, begin);
    }
    wait::until("the ends of containers", SCRAPE_DEADLINE, || {
        let ended = "sum(rate(nm_agent_container_completions_total[1m])) > 0";
        let ended = server.query(ended)?;
        wait::check(ended.len() == 1, ended.len().to_string()).map(drop)
    });
    let range = begin.elapsed().max(Duration::from_secs(10));
    let dashboard: Value =
        serde_json::from_slice(&fs::read(dashboards().join("nm-agent.json")).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut html = HEAD.to_owned();
    let mut charts = 0;
    for panel in panels {
        let lines: Vec<Line> = lines(&server, panel, range);
        charts += usize::from(panel["type"] != "row");
        html += &drawn(panel, &lines, range.as_secs_f64());
    }
    let file = tempfile::Builder::new().suffix(".html").tempfile().unwrap();
    fs::write(file.path(), html).unwrap();
    let url = format!("file://{}", file.path().display());
    let mut page = Browser::start().open(&url, 1320, 1560);
    assert_eq!(page.eval("document.querySelectorAll('svg').length"), charts);
    for title in [
        "Containers by state",
        "Wait for room",
        "Starts and ends",
        "Evictions",
    ] {
        let drawn =
            format!("document.querySelectorAll('[data-title=\"{title}\"] polyline').length");
        assert!(page.eval(&drawn).as_u64().unwrap() > 0, "{title} is empty");
    }
    save(&mut page, "dashboard.png");
}

/// Starts opportunistic containers all the time, guaranteed ones in bursts, and lets some of those
/// that wait be shed.
fn keep_busy(node: &Node, begin: Instant) {
    let (am, rm) = (&node.cluster.am, &node.cluster.rm);
    rm.with(|tracker| tracker.acknowledge_all = true);
    for step in 0_u64.. {
        if begin.elapsed() >= LENGTH {
            return;
        }
        let seconds = 2 + step % 5;
        let sleep = LaunchContext::command(&format!("exec sleep {seconds}"));
        let small = am.allocate().opportunistic().memory_mb(128);
        am.try_start(&small, sleep.clone()).unwrap();
        if step % 24 < 3 {
            am.try_start(&am.allocate().memory_mb(256), sleep).unwrap();
        }
        let is_short = step % 60 > 50;
        rm.order_queuing_limit(if is_short { 3 } else { 12 });
        std::thread::sleep(Duration::from_millis(450));
    }
}

/// Returns what the queries of a panel answer.
fn lines(server: &Prometheus, panel: &Value, range: Duration) -> Vec<Line> {
    let mut lines = Vec::new();
    for target in panel["targets"].as_array().into_iter().flatten() {
        let expression = without_variables(target["expr"].as_str().unwrap());
        for series in server.query_range(&expression, range).unwrap() {
            let labels = series["metric"].as_object().unwrap().iter();
            let names = labels
                .filter(|(name, _)| !["__name__", "job", "instance"].contains(&name.as_str()));
            let mut name: Vec<&str> = names.filter_map(|(_, value)| value.as_str()).collect();
            name.extend(
                expression
                    .starts_with("histogram_quantile(0.99")
                    .then_some("p99"),
            );
            let points = series["values"].as_array().unwrap().iter();
            let points = points.filter_map(|point| {
                let value: f64 = point[1].as_str()?.parse().ok()?;
                value.is_finite().then_some((point[0].as_f64()?, value))
            });
            lines.push((name.join(" "), points.collect()));
        }
    }
    lines
}

/// Draws a panel, in its place of the grid.
fn drawn(panel: &Value, lines: &[Line], range_s: f64) -> String {
    let title = panel["title"].as_str().unwrap();
    let width = panel["gridPos"]["w"].as_u64().unwrap();
    if panel["type"] == "row" {
        return format!("<h2>{title}</h2>\n");
    }
    let unit = panel["fieldConfig"]["defaults"]["unit"].as_str();
    let unit = unit
        .filter(|unit| !["none", "short"].contains(unit))
        .unwrap_or("");
    let points = || lines.iter().flat_map(|(_, points)| points);
    let top = points().map(|(_, value)| *value).fold(0.0, f64::max);
    let end = points().map(|(time, _)| *time).fold(0.0, f64::max);
    let mut chart = String::new();
    let mut legend = String::new();
    for ((name, points), colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let mut path = String::new();
        for (time, value) in points {
            let x = WIDTH * (1.0 - (end - time) / range_s);
            let y = HEIGHT * (1.0 - value / top.max(f64::MIN_POSITIVE));
            write!(path, "{x:.1},{y:.1} ").unwrap();
        }
        write!(chart, "<polyline points='{path}' stroke='{colour}'/>").unwrap();
        if lines.len() > 1 && !name.is_empty() {
            write!(legend, "<i style='color:{colour}'>{name}</i> ").unwrap();
        }
    }
    format!(
        "<section data-title='{title}' style='grid-column:span {width};min-height:{}px'><b>{title}</b> \
         <small>0 to {} {unit}</small><svg viewBox='0 -2 {WIDTH} {}' preserveAspectRatio='none'>{chart}</svg>\
         <p>{legend}</p></section>\n",
        7 * UNIT,
        rounded(top),
        HEIGHT + 4.0,
    )
}

/// Returns a number with three digits, large ones with a prefix.
fn rounded(value: f64) -> String {
    let (value, prefix) = match value {
        large if large >= 1e9 => (large / 1e9, " G"),
        large if large >= 1e6 => (large / 1e6, " M"),
        small => (small, ""),
    };
    let digits = if value >= 100.0 {
        0
    } else if value >= 1.0 {
        1
    } else {
        3
    };
    format!("{value:.digits$}{prefix}")
}

const HEAD: &str = "<!DOCTYPE html><meta charset=utf-8><title>nm-agent</title><style>
body { font: 12px sans-serif; margin: 8px; display: grid; grid-template-columns: repeat(24, 1fr); gap: 6px; color: #222 }
h2 { grid-column: span 24; font-size: 13px; margin: 4px 0 0 }
section { border: 1px solid #ccc; padding: 4px 6px; overflow: hidden }
svg { width: 100%; height: 90px; display: block } small { color: #777; float: right }
polyline { fill: none; stroke-width: 1.5; vector-effect: non-scaling-stroke }
p { margin: 2px 0; font-size: 10px; line-height: 1.2 } i { font-style: normal; margin-right: 6px }
</style>
";
