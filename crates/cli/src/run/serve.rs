//! `serve`: a database or a cluster for MongoDB drivers, until a signal.

use super::served::Served;
use super::{open, source};
use crate::args::{LogArg, ServeArgs, TlsArgs};
use crate::failure::Failure;
use flagstone::changes::ChangeRetention;
use flagstone::internal::env::os::{descriptors_max, name_program};
use flagstone::{Database, Durability};
use flagstone_server::command::{Service, ServiceOptions};
use flagstone_server::net::{
    Address, Limits, Listen, Listener, Log, LogForm, ServeOptions, Server, TlsFiles, notify,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(super) fn run(args: &ServeArgs) -> Result<(), Failure> {
    if open::is_shell() {
        return Err(Failure::Usage("a shell has the database open: expected another".to_owned()));
    }
    if source::is_cluster(&args.database) {
        check_for_cluster(args)?;
    }
    let log = Arc::new(Log::new(form(args.log), std::io::stderr()));
    let limits = limits(args, &log);
    let connections = limits.connections;
    let options = ServeOptions {
        limits,
        tls: files(&args.tls),
        slow: args.slow_ms.map(Duration::from_millis),
        http_hosts: args.http_host.clone(),
    };
    let server = Server::start(listeners(&args.listen)?, options, Arc::clone(&log));
    let served = Arc::new(Serving {
        server: server.map_err(|error| Failure::Io(error.to_string()))?,
        service: OnceLock::new(),
        log,
    });
    let stop = signals(&served)?;
    let ended = serve(args, &served, connections, &stop);
    // After an error it has not been stopped yet.
    served.server.stop(Duration::ZERO);
    ended
}

/// What the thread of signals needs.
struct Serving {
    server: Server<Service>,
    service: OnceLock<Arc<Service>>,
    log: Arc<Log>,
}

/// The descriptors that are left to the log, to files being written, to listeners, and to clients
/// that are told that they are too many; of few a quarter.
const DESCRIPTORS_LEFT: u64 = 192;
/// Those, and what is left to tables at least; of few a half.
const LEFT_WITH_TABLES: u64 = 320;

/// The fewest descriptors that tables may have.
const TABLES_MIN: usize = 8;

/// Returns the limits of clients. Those that the process has no descriptors for would wait, and be
/// told nothing.
fn limits(args: &ServeArgs, log: &Log) -> Limits {
    let mut limits = args.limits.limits();
    let descriptors = descriptors_max().unwrap_or(u64::MAX);
    let most = descriptors - LEFT_WITH_TABLES.min(descriptors / 2);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if limits.connections > most {
        let fields = [("descriptors", descriptors.into()), ("connections", (most as u64).into())];
        log.warn("fewer connections than --max-connections: see ulimit -n", &fields);
        limits.connections = most;
    }
    limits
}

/// Opens the database, serves it until a signal, and closes it.
fn serve(
    args: &ServeArgs,
    served: &Serving,
    connections: usize,
    stop: &Receiver<()>,
) -> Result<(), Failure> {
    let Serving { server, log, .. } = served;
    tell(log, "STATUS=recovering the database");
    if let Some(url) = url_of(server.addresses(), args.tls.cert.is_some()) {
        name_program(&format!("flagstone serve, {url}"));
    }
    let is_cluster = source::is_cluster(&args.database);
    let opened = Served::open(&args.database, args.memory.memory, || open(args, connections))?;
    opened.warnings()?.iter().for_each(|text| log.warn(text, &[]));
    let mut options = ServiceOptions::default();
    options.replica_set.clone_from(&args.replica_set);
    options.cursors_max = args.limits.max_cursors;
    options.sessions_max = args.limits.max_sessions;
    options.loads_max = args.limits.max_loads;
    let is_limit = |time: &Duration| !time.is_zero();
    options.command_time = args.limits.command_timeout.filter(is_limit);
    options.snapshot_age = Some(args.limits.snapshot_age).filter(is_limit).unwrap_or(Duration::MAX);
    options.backups.clone_from(&args.backups);
    options.connections_max = connections;
    options.message_bytes = args.limits.message_bytes;
    options.parsed_bytes = args.limits.limits().messages;
    let service = opened.service(options)?;
    let remote = server.addresses().iter().find(|address| !address.is_local());
    if let Some(address) = remote.filter(|_| !service.users().exist()) {
        opened.close()?;
        return Err(Failure::Usage(format!(
            "others reach {address}, and there are no users: add one with flagstone user add, or \
             listen at 127.0.0.1 or unix:PATH"
        )));
    }
    server.ready(Arc::clone(&service));
    let service = served.service.get_or_init(|| service);
    tell(log, "READY=1\nSTATUS=ready");
    // The sender lives as long as the process.
    while stop.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        if let Err(error) = service.tick() {
            let text = if is_cluster {
                "the users of the cluster may have changed"
            } else {
                "a dropped collection stays"
            };
            log.warn(text, &[("error", error.to_string().into())]);
        }
    }
    tell(log, "STOPPING=1");
    let left = server.stop(args.grace);
    if left > 0 {
        let grace = args.grace.as_secs_f64();
        log.warn("commands did not end", &[("commands", left.into()), ("seconds", grace.into())]);
    }
    service.close();
    opened.close()?;
    log.info("stopped", &[]);
    Ok(())
}

/// Returns the URL by which clients of this machine reach the server.
fn url_of(addresses: &[Address], is_encrypted: bool) -> Option<String> {
    let options = if is_encrypted { "/?tls=true" } else { "" };
    addresses.iter().find_map(|address| match address {
        Address::Tcp(at) => {
            let mut at = *at;
            if at.ip().is_unspecified() {
                at.set_ip(if at.is_ipv4() {
                    Ipv4Addr::LOCALHOST.into()
                } else {
                    Ipv6Addr::LOCALHOST.into()
                });
            }
            Some(format!("mongodb://{at}{options}"))
        }
        Address::Unix(Some(path)) if !is_encrypted => {
            let path = path.to_str().filter(|path| path.starts_with('/'))?;
            Some(format!("mongodb://{}", path.replace('/', "%2F")))
        }
        Address::Unix(_) => None,
    })
}

/// How often cursors and sessions are looked at that nobody uses.
const TICK: Duration = Duration::from_secs(5);

/// Refuses what a cluster does not have, before anybody is told that there is a server.
fn check_for_cluster(args: &ServeArgs) -> Result<(), Failure> {
    #[cfg(not(feature = "cluster"))]
    source::refuse_cluster(&args.database)?;
    let refused = [
        ("--memory", args.memory.memory.is_some(), "that of its nodes"),
        ("--durability", args.durability != Durability::Buffered, "commitlog_sync of its nodes"),
        ("--keep", args.keep.is_some(), "no changes to keep"),
        ("--backups", args.backups.is_some(), "nodetool snapshot"),
        ("--replica-set", args.replica_set.is_some(), "no transactions, which drivers ask of one"),
    ];
    match refused.iter().find(|(_, is_given, _)| *is_given) {
        Some((flag, _, instead)) => {
            Err(Failure::Usage(format!("{flag} is for a directory: a cluster has {instead}")))
        }
        None => Ok(()),
    }
}

/// Opens the database, created if there is none.
fn open(args: &ServeArgs, connections: usize) -> Result<Database, Failure> {
    let mut options = open::options(args.memory.memory).durability(args.durability);
    if let Some(descriptors) = descriptors_max() {
        // What clients may take is not taken by tables.
        let others = DESCRIPTORS_LEFT.min(descriptors / 4) + connections as u64;
        let tables = descriptors.saturating_sub(others).min(descriptors / 4 * 3);
        let most = usize::try_from(tables).unwrap_or(usize::MAX).max(TABLES_MIN);
        options = options.files_open_max(most);
    }
    match args.keep {
        Some(0) => options = options.change_retention(ChangeRetention::OFF),
        Some(bytes) => options = options.change_retention(ChangeRetention::bytes(bytes)),
        None => {}
    }
    Ok(Database::builder(&args.database).options(options).open()?)
}

/// Listens for signals in a thread. The receiver is told to stop.
fn signals(served: &Arc<Serving>) -> Result<Receiver<()>, Failure> {
    let failed = |error| Failure::Io(format!("cannot listen for signals: {error}"));
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(failed)?;
    let (sender, receiver) = mpsc::channel();
    let served = Arc::clone(served);
    let hear = move || {
        let mut is_stopping = false;
        for signal in signals.forever() {
            if signal == SIGHUP {
                reload(&served);
            } else {
                hear_stop(&served, is_stopping, &sender);
                is_stopping = true;
            }
        }
    };
    let spawned = std::thread::Builder::new().name("signals".to_owned()).spawn(hear);
    spawned.map_err(failed)?;
    Ok(receiver)
}

/// Asks the server to stop. A second signal, and one before the database is open, ends the process:
/// recovery may be cut off at any point.
fn hear_stop(served: &Serving, is_stopping: bool, stop: &Sender<()>) {
    if is_stopping || served.service.get().is_none() {
        served.log.warn("ended by a signal", &[]);
        std::process::exit(if is_stopping { 130 } else { 0 });
    }
    // The receiver lives until the server has stopped.
    let _told = stop.send(());
}

/// Reads again what may have changed. What cannot be read stays as it was.
fn reload(served: &Serving) {
    let users = served.service.get().map_or(Ok(()), |service| service.users().reload());
    let errors = [
        served.server.reload().err().map(|error| error.to_string()),
        users.err().map(|error| error.to_string()),
    ];
    for error in errors.iter().flatten() {
        served.log.warn("cannot reload", &[("error", error.as_str().into())]);
    }
    if errors.iter().all(Option::is_none) {
        served.log.info("reloaded", &[]);
    }
}

/// Tells systemd. Without it nobody listens.
fn tell(log: &Log, state: &str) {
    if let Err(error) = notify(state) {
        log.warn("cannot notify", &[("error", error.to_string().into())]);
    }
}

/// Returns the sockets to listen at.
fn listeners(listen: &[Listen]) -> Result<Vec<Listener>, Failure> {
    if listen.is_empty() {
        let inherited = Listener::inherited();
        let failed = |error| Failure::Io(format!("cannot use the sockets of LISTEN_FDS: {error}"));
        let inherited = inherited.map_err(failed)?;
        if !inherited.is_empty() {
            return Ok(inherited);
        }
    }
    let default = [Listen::default()];
    let mut bound = Vec::new();
    for listen in if listen.is_empty() { &default } else { listen } {
        let failed = |error| Failure::Io(format!("cannot listen at {listen}: {error}"));
        bound.extend(Listener::bind(listen).map_err(failed)?);
    }
    Ok(bound)
}

fn files(args: &TlsArgs) -> Option<TlsFiles> {
    let (cert, key) = (args.cert.clone()?, args.key.clone()?);
    Some(TlsFiles { cert, key, client_ca: args.client_ca.clone() })
}

const fn form(log: LogArg) -> LogForm {
    match log {
        LogArg::Text => LogForm::Text,
        LogArg::Json => LogForm::Json,
    }
}
