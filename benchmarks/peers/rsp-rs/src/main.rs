//! One query of rsp-rs over elements of a file.
//!
//! Arguments: QUERY STATIC ELEMENTS STREAM FROM terms|bytes [rows]. QUERY is a file of RSP-QL, STATIC one of
//! N-Triples, ELEMENTS has a line for each element: its time, a tab, its triple. Elements before FROM fill the
//! windows. The clock runs from the first element behind them until the last is in its window and what it made
//! was received; `terms` parses all elements before, `bytes` each within that time. The first line written has
//! elements, CPU seconds of the process, wall clock seconds and rows; with `rows` the rows follow.

use oxigraph::io::{RdfFormat, RdfParser};
use oxigraph::model::Quad;
use rsp_rs::RSPEngine;
use std::time::{Duration, Instant};

fn parsed(line: &[u8]) -> Vec<Quad> {
    RdfParser::from_format(RdfFormat::NTriples)
        .for_slice(line)
        .map(|quad| quad.expect("N-Triples"))
        .collect()
}

fn cpu_seconds() -> f64 {
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let read = |place: usize| std::fs::read_to_string(&arguments[place]).expect("a file");
    let (query, fixed, text) = (read(1), read(2), read(3));
    let (stream_name, from) = (&arguments[4], arguments[5].parse::<i64>().expect("a time"));
    let ready = arguments[6] == "terms";
    let show = arguments.len() > 7;

    let mut engine = RSPEngine::new(query);
    engine.initialize().expect("windows");
    for quad in parsed(fixed.as_bytes()) {
        engine.add_static_data(quad);
    }
    let received = engine.start_processing();
    let stream = engine.get_stream(stream_name).expect("a stream");
    let name = engine.parsed_query().s2r[0].window_name.clone();
    let window = engine.get_window(&name).expect("a window");

    let elements: Vec<(i64, &str)> = text
        .lines()
        .map(|line| line.split_once('\t').expect("a tab"))
        .map(|(at, triple)| (at.parse().expect("a time"), triple))
        .collect();
    // The window's thread holds the lock while an element enters and its reports are made.
    let settled = |last: i64| loop {
        let content = window.lock().unwrap();
        if content.get_content(last).is_some_and(|found| found.last_timestamp_changed == last) {
            break;
        }
        drop(content);
        std::thread::sleep(Duration::from_micros(500));
    };
    let first = elements.iter().position(|(at, _)| *at >= from).expect("timed elements");
    for (at, triple) in &elements[..first] {
        stream.add_quads(parsed(triple.as_bytes()), *at).expect("a stream that is open");
    }
    if first > 0 {
        settled(elements[first - 1].0);
    }
    while received.try_recv().is_ok() {}

    let mut waiting: Vec<Vec<Quad>> = match ready {
        true => elements[first..].iter().rev().map(|(_, triple)| parsed(triple.as_bytes())).collect(),
        false => Vec::new(),
    };
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    let mut rows = Vec::new();
    for (at, triple) in &elements[first..] {
        let quads = waiting.pop().unwrap_or_else(|| parsed(triple.as_bytes()));
        stream.add_quads(quads, *at).expect("a stream that is open");
        rows.extend(received.try_iter());
    }
    settled(elements[elements.len() - 1].0);
    rows.extend(received.try_iter());
    let (cpu, wall) = (cpu_seconds() - cpu, wall.elapsed().as_secs_f64());
    println!("{} {cpu} {wall} {}", elements.len() - first, rows.len());
    if show {
        for row in rows {
            println!("{}", row.bindings);
        }
    }
}
