//! Reads a generated trace of so many bytes, which is stored nowhere, and prints the most memory
//! that the process had: `cargo run --release -p job-trace --example long -- alibaba 10000000000`.
//! The last job is cut off in its middle.

use std::error::Error;
use std::io::{BufReader, Read};
use std::time::Instant;
use std::{env, fs};

use job_trace::samples::Sample;
use job_trace::{Format, jobs};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [format, bytes] = &arguments[..] else {
        return Err("FORMAT BYTES".into());
    };
    let format: Format = format.parse()?;
    let bytes: u64 = bytes.parse()?;
    let begun = Instant::now();
    let input = BufReader::new(Sample::new(format, 1, u64::MAX).take(bytes));
    let (mut read, mut tasks) = (0_u64, 0_u64);
    let mut end = "its end".to_owned();
    for job in jobs(format, input) {
        match job {
            Ok(job) => {
                read += 1;
                tasks += job.task_count();
            }
            Err(error) => end = error.to_string(),
        }
    }
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM:"));
    let (seconds, peak) = (begun.elapsed().as_secs(), peak.unwrap_or("VmHWM: ?"));
    println!("{format}: {read} jobs of {tasks} tasks up to {end}, {seconds} s, {peak}");
    Ok(())
}
