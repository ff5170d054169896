//! Commands on all connections, as fast as replies come: one thread, so that the loader takes as
//! little of the machine as it can.

use crate::args::Options;
use crate::bodies::{Bodies, Body};
use crate::clock::cpu_seconds;
use crate::connection::{Connection, Failed};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::Instant;

/// How long a reply may take.
const PATIENCE: Timespec = Timespec { tv_sec: 120, tv_nsec: 0 };

/// A moment, and the CPU time that the server had used then.
#[derive(Clone, Copy)]
struct Moment {
    at: Instant,
    cpu: Option<f64>,
}

impl Moment {
    fn now(options: &Options) -> Self {
        Self { at: Instant::now(), cpu: cpu_seconds(options.pid) }
    }
}

/// Runs commands for a time, or all of a fill. Returns the figures as JSON.
pub(crate) fn run(options: &Options, body: Body) -> Result<String, Failed> {
    let mut bodies = Bodies::new(body, options.documents, options.seed);
    let mut open: Vec<Connection> = Vec::new();
    for _ in 0..options.connections {
        open.push(Connection::open(options.address)?);
    }
    // A fill counts as a whole.
    let is_timed = body != Body::Fill;
    let warm_up = Instant::now() + options.time / 10;
    let mut began = (!is_timed).then(|| Moment::now(options));
    let mut ended: Option<Moment> = None;
    let mut micros = Vec::new();
    // Those that wait for a reply.
    let mut waiting = Vec::new();
    for (at, connection) in open.iter_mut().enumerate() {
        if !bodies.is_over() {
            connection.send(&mut bodies)?;
            waiting.push(at);
        }
    }
    while !waiting.is_empty() {
        let mut fds: Vec<PollFd<'_>> =
            waiting.iter().map(|at| PollFd::new(&open[*at].stream, PollFlags::IN)).collect();
        if poll(&mut fds, Some(&PATIENCE))? == 0 {
            return Err(format!("no reply within {} s", PATIENCE.tv_sec).into());
        }
        let ready = waiting.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        let ready: Vec<usize> = ready.map(|(at, _)| *at).collect();
        let now = Instant::now();
        match &began {
            None if now >= warm_up => began = Some(Moment::now(options)),
            Some(began) if is_timed && ended.is_none() && now >= began.at + options.time => {
                ended = Some(Moment::now(options));
            }
            _ => {}
        }
        for at in ready {
            let connection = &mut open[at];
            connection.receive(&bodies)?;
            if began.is_some() && ended.is_none() {
                let took = connection.sent.elapsed().as_micros();
                micros.push(u32::try_from(took).unwrap_or(u32::MAX));
            }
            // At the end the server has done all it was sent: the next run begins on an idle one.
            if ended.is_some() || bodies.is_over() {
                waiting.retain(|waits| *waits != at);
            } else {
                connection.send(&mut bodies)?;
            }
        }
    }
    let ended = ended.unwrap_or_else(|| Moment::now(options));
    match began {
        Some(began) if !micros.is_empty() => Ok(shown(&bodies, (began, ended), micros)),
        _ => Err("no reply came in time".into()),
    }
}

/// Returns the figures as JSON. `micros` is the time of each command.
fn shown(bodies: &Bodies, (began, ended): (Moment, Moment), mut micros: Vec<u32>) -> String {
    let count = micros.len() as f64 * f64::from(bodies.documents());
    let cpu = began.cpu.zip(ended.cpu).map(|(before, after)| (after - before) * 1e6 / count);
    let cpu = cpu.map_or("null".to_owned(), |cpu| format!("{cpu:.3}"));
    micros.sort_unstable();
    let quantile = |part: f64| micros[((micros.len() - 1) as f64 * part) as usize];
    format!(
        "{{\"rate\": {:.1}, \"cpu_us\": {cpu}, \"p50_us\": {}, \"p99_us\": {}}}",
        count / (ended.at - began.at).as_secs_f64(),
        quantile(0.5),
        quantile(0.99),
    )
}
