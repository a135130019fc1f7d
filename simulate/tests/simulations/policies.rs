//! The study of docs/policies.md: its page, its kept figures and the simulator agree.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use simulate::policies::plan::{Cell, cells};
use simulate::policies::render::{made, plots, replaced};
use simulate::policies::stored::{Row, csv, read, row_of};
use simulate::runner::run;
use simulate::summary::summaries;

/// The cell that costs least: every arm on ten nodes.
const RECOMPUTED: &str = "two-10-0.8";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn kept() -> Vec<Row> {
    let text = fs::read_to_string(root().join("policies.csv")).unwrap();
    let rows = read(&text).unwrap();
    assert!(csv(&rows) == text, "rows of cells that are not planned");
    rows
}

#[test]
fn the_page_and_its_plots_have_the_kept_figures() {
    let rows = kept();
    let docs = root().join("../docs");
    let page = fs::read_to_string(docs.join("policies.md")).unwrap();
    let expected = replaced(&page, &made(&rows)).unwrap();
    let differs = page.lines().zip(expected.lines()).find(|(a, b)| a != b);
    assert!(page == expected, "the page has other figures: {differs:?}");
    let plots = plots(&rows);
    for (name, plot) in &plots {
        let drawn = fs::read_to_string(docs.join(name)).unwrap();
        assert!(drawn == *plot, "{name}");
    }
    let drawn = fs::read_dir(docs.join("policies")).unwrap().count();
    assert_eq!(drawn, plots.len());
}

#[test]
fn a_cell_that_is_computed_again_stays_within_its_intervals() {
    let rows = kept();
    let is_chosen = |cell: &Cell| cell.name() == RECOMPUTED;
    let cell = cells().find(is_chosen).unwrap();
    let scenario = cell.scenario().unwrap();
    let results = run(&scenario, 2, &AtomicBool::new(false), &mut |_| ());
    let found = summaries(&scenario, &results.runs);
    let left = scenario.arms.iter().zip(&found).flat_map(|(arm, found)| {
        let row = row_of(&rows, &cell, arm).unwrap();
        assert_eq!(row.seeds, found.seeds);
        row.left_by(&found.figures)
    });
    let left: Vec<String> = left.collect();
    assert!(left.is_empty(), "{}", left.join("\n"));
}
