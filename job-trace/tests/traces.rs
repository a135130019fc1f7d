//! Every format: what it says, what is refused and where, and that memory stays flat.

use std::env;
use std::fs;
use std::io::{BufReader, Read};
use std::path::Path;

use job_trace::csv::Writer;
use job_trace::samples::Sample;
use job_trace::{Format, Stage, Tasks, TraceJob, jobs};
use records::ExecutionType;

fn read(format: Format, text: &str) -> Vec<TraceJob> {
    let all: Result<Vec<TraceJob>, _> = jobs(format, text.as_bytes()).collect();
    all.unwrap_or_else(|error| panic!("{format}: {error}\n{text}"))
}

fn refusal(format: Format, text: &str) -> String {
    let error = jobs(format, text.as_bytes()).find_map(Result::err);
    error
        .unwrap_or_else(|| panic!("{format} reads {text:?}"))
        .to_string()
}

fn stage(after: &[usize], tasks: &[Tasks]) -> Stage {
    Stage {
        after: after.to_vec(),
        tasks: tasks.to_vec(),
    }
}

fn job(id: &str, submit_ms: u64, stages: Vec<Stage>) -> TraceJob {
    let id = id.to_owned();
    TraceJob {
        id,
        submit_ms,
        stages,
    }
}

#[test]
fn our_csv_says_arrivals_stages_sizes_and_types() {
    let text = "job,arrival_ms,stage,after,count,length_ms,memory_mb,vcores,type,waited_ms\n\
        a,5,2,1,1,700,2048,2,opportunistic,35\n\
        a,5,1,,80,6000,,,,\n\
        a,5,1,,1,9000,,,guaranteed,\n\
        b,9,,,,1,,,,\n";
    let long = Tasks {
        execution_type: Some(ExecutionType::Guaranteed),
        ..Tasks::of(9_000)
    };
    let last = Tasks {
        memory_mb: 2_048,
        vcores: 2,
        execution_type: Some(ExecutionType::Opportunistic),
        waited_ms: Some(35),
        ..Tasks::of(700)
    };
    let many = Tasks {
        count: 80,
        ..Tasks::of(6_000)
    };
    let a = vec![stage(&[], &[many, long]), stage(&[0], &[last])];
    let b = vec![stage(&[], &[Tasks::of(1)])];
    assert_eq!(read(Format::Csv, text), [job("a", 5, a), job("b", 9, b)]);
}

#[test]
fn sls_takes_the_stated_duration_before_start_and_end_and_copies_a_job() {
    let text = r#"{"num.nodes": 3, "num.racks": 1}
        {"job.start.ms": "7", "job.end.ms": 90, "job.id": "j", "job.count": 2, "job.tasks": [
          {"container.start.ms": 10, "container.end.ms": 40, "container.priority": 20},
          {"container.start.ms": 10, "container.end.ms": 40, "duration.ms": 21, "container.priority": 20},
          {"duration.ms": 21, "container.duration.ms": "22", "count": 3, "container.priority": 10,
           "container.memory-mb": 2048, "container.vcores": 2, "container.execution.type": "GUARANTEED"}]}"#;
    let reduces = Tasks {
        count: 3,
        memory_mb: 2_048,
        vcores: 2,
        execution_type: Some(ExecutionType::Guaranteed),
        ..Tasks::of(22)
    };
    let stages = vec![
        stage(&[], &[Tasks::of(30), Tasks::of(21)]),
        stage(&[0], &[reduces]),
    ];
    let copies = [job("j", 7, stages.clone()), job("j_2", 7, stages)];
    assert_eq!(read(Format::Sls, text), copies);
}

#[test]
fn rumen_counts_the_last_attempt_and_puts_reduces_behind_maps() {
    let text = r#"{"jobID": "j", "submitTime": 5, "finishTime": 500, "queue": null, "mapTasks": [
          {"attempts": [{"startTime": 10, "finishTime": 99}, {"startTime": 100, "finishTime": 140}]}],
          "reduceTasks": [{"attempts": [{"startTime": 150, "finishTime": 200}]}]}
        {"jobID": "k", "submitTime": 6, "mapTasks": [{"attempts": [{"startTime": 1, "finishTime": 2}]}],
         "reduceTasks": null}"#;
    let j = vec![stage(&[], &[Tasks::of(40)]), stage(&[0], &[Tasks::of(50)])];
    let k = vec![stage(&[], &[Tasks::of(1)])];
    assert_eq!(read(Format::Rumen, text), [job("j", 5, j), job("k", 6, k)]);
}

#[test]
fn dynoyarn_takes_runtimes_or_instances_of_a_mean() {
    let text = r#"{"appId": "a", "submitTime": 5, "resourceRequestSpecs": [
        {"runtimes": [3, 4], "numInstances": 1, "resource": {"memoryMB": 512, "vcores": 2}},
        {"numInstances": 3, "averageRuntime": 9}]}"#;
    let of = |length| Tasks {
        memory_mb: 512,
        vcores: 2,
        ..Tasks::of(length)
    };
    let mean = Tasks {
        count: 3,
        ..Tasks::of(9)
    };
    let stages = vec![stage(&[], &[of(3), of(4)]), stage(&[0], &[mean])];
    assert_eq!(read(Format::DynoYarn, text), [job("a", 5, stages)]);
}

#[test]
fn tr_swim_and_alibaba_are_in_seconds() {
    let tr = read(Format::Tr, "1.5 2 3.0 2.25 0.0001\n2 3 4\n");
    assert_eq!(
        tr[0],
        job(
            "job_1",
            1_500,
            vec![stage(&[], &[Tasks::of(2_250), Tasks::of(1)])]
        )
    );
    assert_eq!(tr[1].tasks().next().unwrap().count, 3);
    assert_eq!(tr[1].work_ms(), 12_000);
    // Two blocks of input and as much shuffled by one reduce: 2 s, and 128 MiB or 256 MiB / 2 at
    // 20 MB/s for a map, 128 MiB and 64 MiB of output for the reduce.
    let swim = read(Format::Swim, "job0\t7\t3\t134217728\t134217728\t67108864\n");
    let maps = Tasks {
        count: 2,
        ..Tasks::of(2_000 + 6_710)
    };
    let reduces = Tasks::of(2_000 + 10_066);
    let stages = vec![stage(&[], &[maps]), stage(&[0], &[reduces])];
    assert_eq!(swim, [job("job0", 7_000, stages)]);
    let text = "R2_1,1,j_1,1,Terminated,110,130,50,0.5\n\
        M1,4,j_1,1,Terminated,100,110,100,0.5\n\
        M3,4,j_1,1,Failed,100,0,100,0.5\n\
        task_xyz,1,j_1,1,Terminated,105,105,,\n";
    let of = |count, length| Tasks {
        count,
        memory_mb: 512,
        ..Tasks::of(length)
    };
    let stages = vec![
        stage(&[], &[of(4, 10_000)]),
        stage(&[], &[Tasks::of(500)]),
        stage(&[0], &[of(1, 20_000)]),
    ];
    assert_eq!(read(Format::Alibaba, text), [job("j_1", 100_000, stages)]);
}

#[test]
fn synth_draws_the_described_distributions() {
    let text = Sample::new(Format::Synth, 5, 4_000).text();
    let drawn = read(Format::Synth, &text);
    assert_eq!(drawn.len(), 4_000);
    let short = |job: &&TraceJob| job.id.starts_with("short");
    let count = drawn.iter().filter(short).count();
    assert!((3_100..3_300).contains(&count), "{count} of 3,200 expected");
    let tasks: u64 = drawn.iter().filter(short).map(TraceJob::task_count).sum();
    let work: u64 = drawn.iter().filter(short).map(TraceJob::work_ms).sum();
    assert!(
        (4_800..5_200).contains(&(1_000 * tasks / count as u64)),
        "{tasks} {count}"
    );
    assert!((5_900..6_100).contains(&(work / tasks)), "{work} {tasks}");
    let arrivals: Vec<u64> = drawn.iter().map(|job| job.submit_ms).collect();
    assert!(arrivals.iter().all(|at| (1_000..60_000).contains(at)));
    assert_eq!(
        drawn,
        read(Format::Synth, &text),
        "the seed of the description decides"
    );
}

/// Text of each format with a fault, and what the refusal says.
const FAULTS: &[(Format, &str, &str)] = &[
    (
        Format::Csv,
        "a,1,1\n",
        "line 1, byte 0: the first line is not job,",
    ),
    (
        Format::Csv,
        "HEAD\na,5,1,,1,0,,,,\n",
        "line 2, byte 75: job a: a task of length 0",
    ),
    (Format::Csv, "HEAD\na,5,1,,0,7,,,,\n", "job a: 0 tasks"),
    (
        Format::Csv,
        "HEAD\na,5,1,1,1,7,,,,\n",
        "job a: stage 1 waits for itself",
    ),
    (
        Format::Csv,
        "HEAD\na,5,1,2,1,7,,,,\na,5,2,3,1,7,,,,\na,5,3,1,1,7,,,,\n",
        "stage 1 waits for itself, by way of others",
    ),
    (
        Format::Csv,
        "HEAD\na,5,1,,1,7,,,,\na,6,1,,1,7,,,,\n",
        "line 3, byte 90: job a arrives at 6 ms here and at 5 before",
    ),
    (
        Format::Csv,
        "HEAD\na,5,1,,1,7,,,,\nb,5,1,,1,7,,,,\na,5,1,,1,7,,,,\n",
        "line 4, byte 105: job a comes a second time",
    ),
    (
        Format::Csv,
        "HEAD\na,5,1,,1,7,,,,\na,5,2,,1,7,,,,\na,5,1,,1,7,,,,\n",
        "two stages are called 1",
    ),
    (Format::Csv, "HEAD\na,5,1,,1,7", "6 fields in place of 10"),
    (
        Format::Csv,
        "HEAD\na,5,1,,1,7,,,best,\n",
        "type: neither guaranteed nor opportunistic",
    ),
    (
        Format::Csv,
        "HEAD\na,5,1,,1000001,7,,,,\n",
        "has 1000001 tasks; at most 1000000",
    ),
    (
        Format::Sls,
        r#"{"job.id": "j", "job.tasks": [{"container.start.ms": 9, "container.end.ms": 8}]}"#,
        "line 1, byte 80: a task ends at 8, before its start at 9",
    ),
    (
        Format::Sls,
        r#"{"job.id": "j", "job.start.ms": 9, "job.end.ms": 8, "job.tasks": []}"#,
        "job j: a task ends at 8",
    ),
    (
        Format::Sls,
        r#"{"job.id": "j", "job.tasks": [{"duration.ms": 0}]}"#,
        "job j: a task of length 0",
    ),
    (
        Format::Sls,
        r#"{"job.id": "j", "job.tasks": [{}]}"#,
        "a task without a duration",
    ),
    (
        Format::Sls,
        r#"{"job.id": "j", "job.tasks": []}"#,
        "job j has no task",
    ),
    (
        Format::Sls,
        r#"{"job.id": "j", "job.tasks": [{"duration.ms": 5}]} {"job.id": "j", "job.tasks": [{"duration.ms": 5}]}"#,
        "byte 51: job j comes a second time",
    ),
    (
        Format::Sls,
        r#"{"job.id": "j", "job.tasks": [{"duration.ms""#,
        "byte 44: cut off: EOF",
    ),
    (
        Format::Sls,
        r#"{"job.id": "j", "job.count": 2000000000, "job.tasks": [{"duration.ms": 5}]}"#,
        "2000000000 copies",
    ),
    (
        Format::Rumen,
        r#"{"jobID": "j", "submitTime": 5, "mapTasks": [{"attempts": []}]}"#,
        "a task without an attempt",
    ),
    (
        Format::Rumen,
        r#"{"jobID": "j", "submitTime": 5, "finishTime": 4, "mapTasks": []}"#,
        "job j ends at 4, before its submission at 5",
    ),
    (
        Format::Rumen,
        r#"{"jobID": "j", "submitTime": -5, "mapTasks": [{"attempts": [{"startTime": 1, "finishTime": 2}]}]}"#,
        "job j arrives at -5 ms",
    ),
    (
        Format::Rumen,
        "[]",
        "line 1, byte 2: invalid length 0, expected struct Job",
    ),
    (
        Format::DynoYarn,
        r#"{"appId": "a", "submitTime": 5, "resourceRequestSpecs": [{"numInstances": 3}]}"#,
        "application a: containers without runtimes",
    ),
    (
        Format::DynoYarn,
        "{\"appId\": \"a\",\n\"submitTime\": x}",
        "line 2, byte 30: expected value",
    ),
    (Format::Tr, "1 2 3 4\n", "1 lengths for 2 tasks"),
    (Format::Tr, "1 1 3 0\n", "a task of length 0"),
    (Format::Tr, "1 1\n", "cut off before the mean length"),
    (
        Format::Tr,
        "1 1 nan nan\n",
        "the mean length: \"nan\" is no time in seconds",
    ),
    (Format::Swim, "job0\t1\t2\t3\n", "4 fields in place of 6"),
    (
        Format::Swim,
        "job0\t1\t2\tmuch\t0\t0\n",
        "map input: \"much\" is no number of bytes",
    ),
    (
        Format::Swim,
        "job0\t1\t2\t1\t0\t0\njob0\t1\t2\t1\t0\t0\n",
        "line 2, byte 15: job job0 comes a second time",
    ),
    (
        Format::Alibaba,
        "M1,4,j,1,Terminated,100,99,100,0.5\n",
        "a task ends at 99000, before its start at 100000",
    ),
    (
        Format::Alibaba,
        "M1_1,4,j,1,Terminated,100,101,100,0.5\n",
        "stage 1 waits for itself",
    ),
    (
        Format::Alibaba,
        "M1_2,4,j,1,Terminated,100,101,,\nM2_1,4,j,1,Terminated,100,101,,\n",
        "stage 1 waits for itself, by way of others",
    ),
    (
        Format::Alibaba,
        "M1,4,j,1,Terminated,100,101,,\nR1,4,j,1,Terminated,100,101,,\n",
        "two stages are called 1",
    ),
    (Format::Synth, "", "no description"),
    (
        Format::Synth,
        r#"{"num_jobs": 1, "workloads": []}"#,
        "weights whose sum is not above 0",
    ),
];

#[test]
fn a_fault_is_named_with_its_place() {
    let mut wrong = Vec::new();
    for (format, text, expected) in FAULTS {
        let text = text.replace("HEAD", job_trace::csv::HEAD);
        let error = refusal(*format, &text);
        assert!(error.starts_with("line "), "{error}");
        if !error.contains(expected) {
            wrong.push(format!("{format}: {error}\nexpected {expected}\n{text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_sample_can_be_read_and_survives_our_csv() {
    for format in Format::ALL {
        let all = read(format, &Sample::new(format, 3, 40).text());
        assert_eq!(all.len(), 40, "{format}");
        let mut writer = Writer::new(Vec::new()).unwrap();
        for job in &all {
            writer.write(job).unwrap();
        }
        let text = String::from_utf8(writer.finish().unwrap()).unwrap();
        assert_eq!(read(Format::Csv, &text), all, "{format}");
    }
}

/// `NM_AGENT_WRITE_SAMPLES=1 cargo test -p job-trace` writes them anew.
#[test]
fn the_samples_of_the_repository_are_those_that_are_drawn() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    for format in Format::ALL {
        let end = match format {
            Format::Csv | Format::Alibaba => "csv",
            Format::Tr => "tr",
            Format::Swim => "tsv",
            Format::Sls | Format::Rumen | Format::Synth | Format::DynoYarn => "json",
        };
        let file = folder.join(format!("{format}.{end}"));
        let text = Sample::new(format, 1, 4).text();
        if env::var_os("NM_AGENT_WRITE_SAMPLES").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&file, &text).unwrap();
        }
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            text,
            "{}",
            file.display()
        );
    }
}

/// Returns the most bytes that reading so many jobs held at once.
fn memory_of(format: Format, count: u64) -> u64 {
    let sample = BufReader::new(Sample::new(format, 3, count));
    let measured = allocation_counter::measure(|| {
        assert_eq!(
            jobs(format, sample).map(Result::unwrap).count() as u64,
            count
        );
    });
    measured.bytes_max
}

#[test]
fn memory_does_not_grow_with_a_trace() {
    // One of each kind of reader: jobs of several lines, of one line, objects of JSON.
    for format in [Format::Csv, Format::Tr, Format::Sls] {
        // The ids that are remembered take memory up to a bound, which the shorter trace reaches.
        let enough = job_trace::IDS_REMEMBERED as u64 + 1_000;
        let (short, long) = (memory_of(format, enough), memory_of(format, 2 * enough));
        assert!(
            long <= short + short / 20,
            "{format}: {short} and {long} bytes"
        );
    }
}

#[test]
fn one_job_without_end_is_refused_before_memory_is_full() {
    let endless = std::iter::repeat_n(b"{\"duration.ms\": 5},", 2_000_000);
    let text: Vec<u8> = b"{\"job.id\": \"j\", \"job.tasks\": ["
        .iter()
        .copied()
        .chain(endless.flatten().copied())
        .collect();
    let measured = allocation_counter::measure(|| {
        let error = jobs(Format::Sls, text.as_slice())
            .find_map(Result::err)
            .unwrap();
        assert!(
            error.reason.contains("more than 1000000 elements"),
            "{error}"
        );
        assert!(error.place.byte > 18_000_000, "{error}");
    });
    assert!(measured.bytes_max < 200 << 20, "{}", measured.bytes_max);
    for format in [Format::Tr, Format::Csv, Format::Swim, Format::Alibaba] {
        let spaces = BufReader::new(std::io::repeat(b'x').take(1 << 30));
        let measured = allocation_counter::measure(|| {
            let error = jobs(format, spaces).find_map(Result::err).unwrap();
            assert!(error.reason.contains("a line of more than"), "{error}");
        });
        assert!(measured.bytes_max < 64 << 20, "{}", measured.bytes_max);
    }
}

#[test]
fn a_fault_far_inside_is_named_with_its_byte() {
    let good = Sample::new(Format::Sls, 3, 20_000);
    let bytes = Sample::new(Format::Sls, 3, 20_000).text().len() as u64;
    let input = BufReader::new(good.chain(b"{\"job.id\" 5".as_slice()));
    let mut read = 0;
    let error = jobs(Format::Sls, input)
        .inspect(|job| read += u64::from(job.is_ok()))
        .find_map(Result::err);
    let error = error.unwrap();
    assert_eq!(read, 20_000);
    assert_eq!(error.place.byte, bytes + 11, "{error}");
    // Two lines for each job, and one of the cluster.
    assert_eq!(error.place.line, 40_002);
}
