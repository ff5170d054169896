//! Users of a database, and the conversation by which one logs in.

use flagstone::internal::document::{base64, put_base64};
use flagstone::{Database, Durability, ErrorKind, Options, Space, Value, doc};
use flagstone_server::access::{Refused, Role, RoleKind, USERS, User, Users};
use flagstone_testkit::World;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

fn role(kind: RoleKind, database: Option<&str>) -> Role {
    Role { kind, database: database.map(str::to_owned) }
}

fn hmac(key: &[u8], message: &str) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message.as_bytes());
    mac.finalize().into_bytes().into()
}

fn to_base64(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    put_base64(bytes, &mut out);
    String::from_utf8(out).unwrap()
}

/// What a client answers to the server's first message.
pub(crate) struct Proof {
    pub(crate) message: String,
    pub(crate) verifier: String,
}

/// The client's side of SCRAM-SHA-256.
pub(crate) fn prove(first_bare: &str, server_first: &str, password: &str) -> Proof {
    let field = |name| server_first.split(',').find_map(|field| field.strip_prefix(name)).unwrap();
    let (salt, count) = (base64(field("s=")).unwrap(), field("i=").parse().unwrap());
    let mut salted = [0; 32];
    pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), &salt, count, &mut salted);
    let unproved = format!("c=biws,r={}", field("r="));
    let messages = format!("{first_bare},{server_first},{unproved}");
    let client_key = hmac(&salted, "Client Key");
    let signed = hmac(&Sha256::digest(client_key), &messages);
    let proof: Vec<u8> = client_key.iter().zip(signed).map(|(a, b)| a ^ b).collect();
    let verifier = to_base64(&hmac(&hmac(&salted, "Server Key"), &messages));
    let message = format!("{unproved},p={}", to_base64(&proof));
    Proof { message, verifier: format!("v={verifier}") }
}

fn server_first(users: &Users, name: &str) -> String {
    let first = format!("n,,n={name},r=abc");
    let (_, answer) = users.begin_scram("SCRAM-SHA-256", first.as_bytes()).unwrap();
    String::from_utf8(answer).unwrap()
}

pub(crate) fn log_in(users: &Users, name: &str, password: &str) -> Result<User, Refused> {
    let bare = format!("n={name},r=abc");
    let (mut conversation, answer) =
        users.begin_scram("SCRAM-SHA-256", format!("n,,{bare}").as_bytes())?;
    let proof = prove(&bare, &String::from_utf8(answer).unwrap(), password);
    let (is_done, answer) = conversation.step(proof.message.as_bytes())?;
    assert_eq!((is_done, answer), (true, proof.verifier.into_bytes()));
    Ok(conversation.user().unwrap().clone())
}

fn salt(server_first: &str) -> &str {
    server_first.split(',').find_map(|field| field.strip_prefix("s=")).unwrap()
}

#[test]
fn a_user_logs_in_with_the_password_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let users = Users::open(&db).unwrap();
    let roles = vec![role(RoleKind::ReadWrite, Some("shop"))];
    users.create("ada", "lovelace", roles.clone()).unwrap();
    assert_eq!(log_in(&users, "ada", "lovelace"), Ok(User { name: "ada".into(), roles }));
    assert_eq!(log_in(&users, "ada", "byron"), Err(Refused::Wrong));
    assert_eq!(log_in(&users, "eve", "lovelace"), Err(Refused::Wrong));
    assert_eq!(users.check_password("ada", "lovelace").unwrap().unwrap().name, "ada");
    for (name, password) in
        [("ada", "byron"), ("ada", ""), ("ada", "\u{7}"), ("eve", "lovelace"), ("", "")]
    {
        assert_eq!(users.check_password(name, password), Ok(None), "{name} {password:?}");
    }
    let refused = users.begin_scram("SCRAM-SHA-1", b"n,,n=ada,r=abc").unwrap_err();
    assert_eq!(refused, Refused::Mechanism("SCRAM-SHA-1".into()));
}

/// A password that was right is remembered, and so is no other; not beyond a change of users.
#[test]
fn a_password_is_right_as_long_as_it_is_the_users() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let users = Users::open(&db).unwrap();
    users.create("ada", "lovelace", Vec::new()).unwrap();
    let is_right =
        |name: &str, password: &str| users.check_password(name, password).unwrap().is_some();
    for _ in 0..2 {
        assert!(is_right("ada", "lovelace"));
        assert!(!is_right("ada", "lovelac") && !is_right("adal", "ovelace"));
        assert!(!is_right("ada", "") && !is_right("ada", &"lovelace".repeat(1000)));
    }
    users.update("ada", Some("byron"), None).unwrap();
    assert!(!is_right("ada", "lovelace") && is_right("ada", "byron"));
    users.remove("ada").unwrap();
    assert!(!is_right("ada", "byron"));
}

/// What was recorded of one conversation does not open another.
#[test]
fn a_proof_is_good_for_one_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let users = Users::open(&db).unwrap();
    users.create("ada", "lovelace", Vec::new()).unwrap();
    let bare = "n=ada,r=abc";
    let begin = || users.begin_scram("SCRAM-SHA-256", b"n,,n=ada,r=abc").unwrap();
    let (mut first, answer) = begin();
    let proof = prove(bare, str::from_utf8(&answer).unwrap(), "lovelace").message;
    first.step(proof.as_bytes()).unwrap();
    let (mut second, _) = begin();
    assert!(second.step(proof.as_bytes()).is_err());
    assert_eq!(second.user(), None);
}

#[test]
fn users_are_created_changed_and_removed_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let users = Users::open(&db).unwrap();
    assert!(!users.exist() && db.keyspaces().is_empty());
    let before = users.changes();
    users.create("ada", "lovelace", vec![role(RoleKind::Root, None)]).unwrap();
    assert!(users.exist() && users.changes() > before);
    let twice = users.create("ada", "other", Vec::new()).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Duplicate);

    let read = vec![role(RoleKind::Read, Some("shop"))];
    assert!(users.update("ada", Some("countess"), None).unwrap());
    assert!(users.update("ada", None, Some(read.clone())).unwrap());
    assert!(!users.update("eve", Some("x"), None).unwrap());
    db.close().unwrap();
    drop(users);

    let db = Database::open(dir.path()).unwrap();
    let users = Users::open(&db).unwrap();
    assert_eq!(users.list(), [User { name: "ada".into(), roles: read }]);
    log_in(&users, "ada", "countess").unwrap();
    assert_eq!(log_in(&users, "ada", "lovelace"), Err(Refused::Wrong));
    assert!(users.remove("ada").unwrap() && !users.remove("ada").unwrap());
    assert!(!users.exist() && users.get("ada").is_none());
    assert_eq!(log_in(&users, "ada", "countess"), Err(Refused::Wrong));
}

/// A sync does not save what is not logged: with `--durability none` a user, or its removal, was
/// lost by a power cut.
#[test]
fn users_survive_a_power_cut_whatever_the_database_does() {
    for durability in [Durability::None, Durability::Buffered] {
        let world = World::new(1);
        let options = Options::new().durability(durability);
        let session = world.open(&options).unwrap();
        let users = Users::open(&session.db).unwrap();
        users.create("ada", "lovelace", vec![role(RoleKind::Root, None)]).unwrap();
        users.create("eve", "p", Vec::new()).unwrap();
        users.remove("eve").unwrap();
        let world = world.after_power_cut(0);
        drop((users, session));
        let session = world.open(&options).unwrap();
        let users = Users::open(&session.db).unwrap();
        assert_eq!(users.list().len(), 1, "{durability:?}");
        assert!(users.check_password("ada", "lovelace").unwrap().is_some());
    }
}

#[test]
fn the_password_is_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let users = Users::open(&db).unwrap();
    users.create("ada", "a-rare-password", Vec::new()).unwrap();
    users.create("bob", "a-rare-password", Vec::new()).unwrap();
    let stored = |name| db.collection(USERS).unwrap().get(name).unwrap().unwrap();
    let (ada, bob) = (stored("ada").to_value(), stored("bob").to_value());
    for field in ["salt", "stored_key", "server_key"] {
        assert_ne!(ada.get(field), bob.get(field), "{field}");
    }
    db.flush().unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(15).any(|window| window == b"a-rare-password"));
    }
}

/// Otherwise a salt that changes with every question, or with every start, would tell that there is
/// no such user.
#[test]
fn an_unknown_user_has_a_salt_that_stays() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let users = Users::open(&db).unwrap();
    let first = server_first(&users, "eve");
    users.create("ada", "lovelace", Vec::new()).unwrap();
    let (eve, ada) = (server_first(&users, "eve"), server_first(&users, "ada"));
    assert_eq!(salt(&first), salt(&eve));
    assert_ne!(salt(&eve), salt(&server_first(&users, "mallory")));
    assert_ne!(eve.split(',').next(), first.split(',').next(), "nonces");
    assert_eq!((salt(&eve).len(), eve.len()), (salt(&ada).len(), ada.len()));
    db.close().unwrap();
    drop(users);
    let db = Database::open(dir.path()).unwrap();
    let users = Users::open(&db).unwrap();
    assert_eq!(salt(&server_first(&users, "eve")), salt(&eve));
    assert_eq!(salt(&server_first(&users, "ada")), salt(&ada));
}

#[test]
fn names_and_passwords_that_cannot_be_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let users = Users::open(&db).unwrap();
    let long = "x".repeat(2000);
    for (name, password) in [
        ("", "p"),
        (&*long, "p"),
        ("a\nb", "p"),
        ("ada", ""),
        ("ada", &*long),
        ("ada", "\u{7}"),
        ("ada", "\u{AD}"),
    ] {
        let error = users.create(name, password, Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    assert!(!users.exist() && db.keyspaces().is_empty());
    users.create("ad\u{e4},=", "p\u{e4}ss w\u{f6}rd", Vec::new()).unwrap();
    log_in(&users, "ad\u{e4}=2C=3D", "p\u{e4}ss w\u{f6}rd").unwrap();
}

/// A user who is left out because of damage could be the last one, and all doors open.
#[test]
fn a_damaged_user_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let users = Users::open(&db).unwrap();
    users.create("ada", "lovelace", Vec::new()).unwrap();
    let collection = db.collection(USERS).unwrap();
    let kept = collection.get("ada").unwrap().unwrap();
    for (key, value, expected) in [
        (Value::from("ada"), doc!({}), "salt"),
        (Value::from(7), doc!({}), "the name of a user"),
        (doc!(["secret"]), doc!({ "secret": 1 }), "32 bytes"),
    ] {
        let old = collection.get(&key).unwrap();
        collection.put(&key, value).unwrap();
        let error = Users::open(&db).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(
            error.to_string().contains(USERS) && error.to_string().contains(expected),
            "{error}"
        );
        assert!(users.reload().is_err());
        assert!(users.exist(), "as before");
        match old {
            Some(old) => collection.put(&key, &old).unwrap(),
            None => collection.delete(&key).unwrap(),
        }
    }
    collection.put("bob", &kept).unwrap();
    assert!(users.get("bob").is_none());
    users.reload().unwrap();
    log_in(&users, "bob", "lovelace").unwrap();
}
