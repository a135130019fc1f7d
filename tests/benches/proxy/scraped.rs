//! Calls while an exporter scrapes the node, in turns with calls while none does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tests::http;
use tests::samples::Samples;

use crate::masters::Master;

/// Interval of scrapes: 50 a second, which no exporter in its right mind makes.
const INTERVAL: Duration = Duration::from_millis(20);

/// Turns with scrapes, and as many without, so that other work on the machine falls on both.
const TURNS: usize = 10;

/// Times of calls without asks.
pub(crate) struct Scraped {
    pub(crate) without: Samples,
    pub(crate) with: Samples,
    /// Scrapes per second, while there were any.
    pub(crate) rate: f64,
}

impl Scraped {
    /// Makes `count` calls of each kind through the proxy of the node with this web port, after so
    /// many to warm up.
    pub(crate) async fn measure(
        web_port: i32,
        master: &mut Master,
        (warm_up, count): (usize, usize),
    ) -> Self {
        for _ in 0..warm_up {
            master.empty().await;
        }
        let (mut without, mut with) = (Vec::new(), Vec::new());
        let (mut scrapes, mut scraping) = (0, Duration::ZERO);
        for _ in 0..TURNS {
            for _ in 0..count / TURNS {
                without.push(master.empty().await);
            }
            let begin = Instant::now();
            let exporter = Exporter::start(web_port);
            for _ in 0..count / TURNS {
                with.push(master.empty().await);
            }
            scrapes += exporter.stop();
            scraping += begin.elapsed();
        }
        Self {
            without: without.into_iter().collect(),
            with: with.into_iter().collect(),
            rate: f64::from(scrapes) / scraping.as_secs_f64(),
        }
    }
}

/// A thread that scrapes in turn what exporters read.
struct Exporter {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u32>,
}

impl Exporter {
    fn start(web_port: i32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let begin = Instant::now();
            let mut scrapes = 0;
            while !stopped.load(Ordering::Relaxed) {
                let path = ["jmx", "metrics"][usize::from(scrapes % 2 == 1)];
                let url = format!("http://127.0.0.1:{web_port}/{path}");
                let answer = http::get(&url).expect("the node answers");
                assert_eq!(answer.status, 200, "{url}");
                scrapes += 1;
                let due = INTERVAL * scrapes;
                std::thread::sleep(due.saturating_sub(begin.elapsed()));
            }
            scrapes
        });
        Self { stop, thread }
    }

    /// Returns the number of scrapes.
    fn stop(self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the exporter does not panic")
    }
}
