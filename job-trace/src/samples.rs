//! Samples of every format, drawn from a seed: for documentation, tests and fuzzing. Nothing in
//! them comes from a real cluster.

use std::collections::VecDeque;
use std::io::{self, Read};

use sim::{Random, Streams};

use crate::Format;
use crate::csv::HEAD;

/// Gap between two arrivals at most, in milliseconds.
const GAP_MAX_MS: u64 = 5_000;

/// Text of a trace that has so many jobs, in pieces as they are read.
#[derive(Debug)]
pub struct Sample {
    format: Format,
    random: Random,
    jobs: u64,
    written: u64,
    at_ms: u64,
    ready: VecDeque<u8>,
}

impl Sample {
    /// Begins a trace. The same format, seed and number of jobs give the same bytes.
    #[must_use]
    pub fn new(format: Format, seed: u64, jobs: u64) -> Self {
        let head = match format {
            Format::Csv => format!("{HEAD}\n"),
            Format::Sls => "{\"num.nodes\": 4, \"num.racks\": 1}\n".to_owned(),
            Format::Synth => synth(seed, jobs),
            Format::Rumen | Format::DynoYarn | Format::Tr | Format::Swim | Format::Alibaba => {
                String::new()
            }
        };
        Self {
            format,
            random: Streams::new(seed).stream("sample", 0),
            jobs: if format == Format::Synth { 0 } else { jobs },
            written: 0,
            at_ms: 0,
            ready: head.into_bytes().into(),
        }
    }

    /// Returns the whole text.
    ///
    /// # Panics
    /// Never: reading a sample does not fail.
    #[must_use]
    pub fn text(mut self) -> String {
        let mut text = String::new();
        let read = self.read_to_string(&mut text);
        read.expect("a sample is UTF-8 and always readable");
        text
    }

    fn next_job(&mut self) -> String {
        self.written += 1;
        self.at_ms += self.random.below(GAP_MAX_MS);
        let job = Drawn {
            number: self.written,
            at_ms: self.at_ms,
            maps: 1 + self.random.below(4),
            reduces: self.random.below(3),
            map_ms: 1_000 + self.random.below(9_000),
            reduce_ms: 1_000 + self.random.below(9_000),
        };
        match self.format {
            Format::Csv => job.csv(),
            Format::Sls => job.sls(),
            Format::Rumen => job.rumen(),
            Format::DynoYarn => job.dynoyarn(),
            Format::Tr => job.tr(),
            Format::Swim => job.swim(),
            Format::Alibaba => job.alibaba(),
            Format::Synth => String::new(),
        }
    }
}

impl Read for Sample {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.ready.len() < out.len() && self.written < self.jobs {
            let text = self.next_job();
            self.ready.extend(text.into_bytes());
        }
        self.ready.read(out)
    }
}

/// Job of a sample: maps, then reduces.
struct Drawn {
    number: u64,
    at_ms: u64,
    maps: u64,
    reduces: u64,
    map_ms: u64,
    reduce_ms: u64,
}

fn list(count: u64, element: impl Fn(u64) -> String) -> String {
    (0..count).map(element).collect::<Vec<_>>().join(", ")
}

impl Drawn {
    fn csv(&self) -> String {
        let Self {
            number,
            at_ms,
            maps,
            map_ms,
            ..
        } = self;
        let mut text = format!("job_{number},{at_ms},1,,{maps},{map_ms},1024,1,,\n");
        if self.reduces > 0 {
            let Self {
                reduces, reduce_ms, ..
            } = self;
            text +=
                &format!("job_{number},{at_ms},2,1,{reduces},{reduce_ms},2048,1,guaranteed,12\n");
        }
        text
    }

    fn sls(&self) -> String {
        let task = |length: u64, priority: u64, kind: &str| {
            let (start, end) = (self.at_ms + 500, self.at_ms + 500 + length);
            format!(
                "{{\"container.host\": \"/rack/node1\", \"container.start.ms\": {start}, \
                 \"container.end.ms\": {end}, \"container.priority\": {priority}, \
                 \"container.type\": \"{kind}\"}}"
            )
        };
        let maps = list(self.maps, |_| task(self.map_ms, 20, "map"));
        let reduces = list(self.reduces, |_| task(self.reduce_ms, 10, "reduce"));
        let comma = if self.reduces > 0 { ", " } else { "" };
        format!(
            "{{\"am.type\": \"mapreduce\", \"job.start.ms\": {}, \"job.end.ms\": {}, \
             \"job.queue.name\": \"q\", \"job.id\": \"job_{}\", \"job.user\": \"u\",\n \
             \"job.tasks\": [{maps}{comma}{reduces}]}}\n",
            self.at_ms,
            self.at_ms + 60_000,
            self.number,
        )
    }

    fn rumen(&self) -> String {
        let begin = 1_700_000_000_000 + self.at_ms;
        let task = |length: u64| {
            format!(
                "{{\"attempts\": [{{\"hostName\": \"/rack/node1\", \"startTime\": {begin}, \
                 \"result\": \"SUCCESS\", \"finishTime\": {}}}]}}",
                begin + length
            )
        };
        format!(
            "{{\n  \"jobID\" : \"job_1700000000000_{:04}\",\n  \"user\" : \"u\",\n  \"queue\" : \
             \"q\",\n  \"submitTime\" : {begin},\n  \"finishTime\" : {},\n  \"mapTasks\" : [ {} \
             ],\n  \"reduceTasks\" : [ {} ]\n}}\n",
            self.number,
            begin + 60_000,
            list(self.maps, |_| task(self.map_ms)),
            list(self.reduces, |_| task(self.reduce_ms)),
        )
    }

    fn dynoyarn(&self) -> String {
        let spec = |count: u64, length: u64, priority: u64| {
            let runtimes = list(count, |_| length.to_string());
            format!(
                "{{\"runtimes\":[{runtimes}],\"numInstances\":{count},\
                 \"resource\":{{\"memoryMB\":2048,\"vcores\":1}},\"priority\":{priority}}}"
            )
        };
        let mut specs = spec(self.maps, self.map_ms, 20);
        if self.reduces > 0 {
            specs += &format!(",{}", spec(self.reduces, self.reduce_ms, 10));
        }
        format!(
            "{{\"amResourceRequest\":{{\"memoryMB\":1024,\"vcores\":1}},\
             \"appId\":\"application_1700000000000_{:04}\",\"appType\":\"MAPREDUCE\",\
             \"queue\":\"q\",\"user\":\"u\",\"submitTime\":{},\"resourceRequestSpecs\":[{specs}]}}\n",
            self.number,
            1_700_000_000_000 + self.at_ms,
        )
    }

    fn tr(&self) -> String {
        let seconds = |ms: u64| format!("{}.{:03}", ms / 1_000, ms % 1_000);
        let length = seconds(self.map_ms);
        let all = vec![length.as_str(); usize::try_from(self.maps).unwrap_or(1)];
        let submit = seconds(self.at_ms);
        format!("{submit}\t{}\t{length}\t{}\n", self.maps, all.join("\t"))
    }

    fn swim(&self) -> String {
        let (input, shuffle) = (self.maps * (64 << 20), self.reduces * (1 << 20));
        let output = self.reduce_ms * 1_000;
        let submit = self.at_ms / 1_000;
        format!(
            "job{}\t{submit}\t1\t{input}\t{shuffle}\t{output}\n",
            self.number
        )
    }

    fn alibaba(&self) -> String {
        let start = 86_400 + self.at_ms / 1_000;
        let middle = start + self.map_ms / 1_000;
        let number = self.number;
        let mut text = format!(
            "M1,{},j_{number},1,Terminated,{start},{middle},100.0,0.5\n",
            self.maps
        );
        if self.reduces > 0 {
            let end = middle + self.reduce_ms / 1_000;
            let reduces = self.reduces;
            text += &format!("R2_1,{reduces},j_{number},1,Terminated,{middle},{end},50.0,0.5\n");
        }
        text
    }
}

fn synth(seed: u64, jobs: u64) -> String {
    format!(
        r#"{{
  "description": "short and long jobs",
  "num_nodes": 4, "nodes_per_rack": 4, "num_jobs": {jobs}, "rand_seed": {seed},
  "workloads": [{{
    "workload_name": "sample", "workload_weight": 1.0, "queue_name": "q",
    "job_classes": [
      {{"class_name": "short", "class_weight": 0.8, "type": "mapreduce", "tasks": [
        {{"type": "map", "priority": 20, "count": {{"val": 5, "std": 1}}, "time": {{"val": 6, "std": 1}},
          "max_memory": {{"val": 1024}}, "max_vcores": {{"val": 1}}}}]}},
      {{"class_name": "long", "class_weight": 0.2, "mtasks_avg": 4, "mtasks_stddev": 1, "mtime_avg": 26,
        "mtime_stddev": 2, "rtasks_avg": 2, "rtasks_stddev": 0.5, "rtime_avg": 10, "rtime_stddev": 1,
        "map_max_memory_avg": 1024, "map_max_vcores_avg": 1,
        "reduce_max_memory_avg": 2048, "reduce_max_vcores_avg": 1}}
    ],
    "time_distribution": [{{"time": 1, "weight": 100}}, {{"time": 60, "weight": 0}}]
  }}]
}}
"#
    )
}
