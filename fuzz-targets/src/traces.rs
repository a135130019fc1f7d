//! Traces of jobs in every format: a job that is read keeps the bounds, and our own CSV says the
//! same of it.

use job_trace::csv::Writer;
use job_trace::samples::Sample;
use job_trace::{Format, LENGTH_MAX_MS, TASKS_MAX, TraceJob, jobs};

use crate::{Memory, Target};

const fn target(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Target {
    Target {
        name,
        bytes_max: 16 * 1024,
        // A few bytes of a description may draw a job of the most tasks.
        memory: Memory {
            base: 256 << 20,
            per_byte: 1_024,
        },
        run,
        seeds,
    }
}

macro_rules! targets {
    ($($constant:ident $name:literal $format:ident)*) => {
        $(pub(crate) const $constant: Target = target(
            $name,
            |input| check(Format::$format, input),
            || seeds(Format::$format),
        );)*
    };
}

targets! {
    CSV "trace_csv" Csv
    SLS "trace_sls" Sls
    RUMEN "trace_rumen" Rumen
    SYNTH "trace_synth" Synth
    DYNOYARN "trace_dynoyarn" DynoYarn
    TR "trace_tr" Tr
    SWIM "trace_swim" Swim
    ALIBABA "trace_alibaba" Alibaba
}

fn check(format: Format, input: &[u8]) {
    // A description draws as many jobs as it says.
    let few = if format == Format::Synth { 2 } else { 50 };
    let mut read: Vec<TraceJob> = Vec::new();
    for job in jobs(format, input).take(few) {
        match job {
            Ok(job) if job.task_count() > 10_000 => return bounded(&job),
            Ok(job) => {
                bounded(&job);
                read.push(job);
            }
            Err(error) => {
                assert!(error.to_string().len() <= 8_192, "{error}");
                assert!(error.place.byte <= input.len() as u64, "{error}");
                break;
            }
        }
    }
    let mut writer = Writer::new(Vec::new()).expect("memory can be written");
    for (number, job) in read.iter_mut().enumerate() {
        // Our text has no commas in ids, and two ids may differ in them alone.
        job.id = format!("job_{number}");
        writer.write(job).expect("memory can be written");
    }
    let text = writer.finish().expect("memory can be written");
    for (again, job) in jobs(Format::Csv, text.as_slice()).zip(&read) {
        assert_eq!(&again.expect("our own text is read"), job);
    }
}

fn bounded(job: &TraceJob) {
    assert!((1..=TASKS_MAX).contains(&job.task_count()));
    for (number, stage) in job.stages.iter().enumerate() {
        assert!(stage.after.iter().all(|before| *before < number), "{job:?}");
        for tasks in &stage.tasks {
            assert!(tasks.count > 0 && (1..=LENGTH_MAX_MS).contains(&tasks.length_ms));
        }
    }
}

fn seeds(format: Format) -> Vec<Vec<u8>> {
    vec![Sample::new(format, 1, 2).text().into_bytes()]
}
