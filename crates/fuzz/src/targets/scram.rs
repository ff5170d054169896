//! Logins: without the password none ends well, whatever is sent.

use super::{join, note, split};
use flagstone::Options;
use flagstone_server::access::{Conversation, Role, RoleKind, Users};
use flagstone_testkit::world::{Session, World};
use std::sync::OnceLock;

fn users() -> &'static Users {
    static PLACE: OnceLock<(Users, Session, World)> = OnceLock::new();
    let (users, ..) = PLACE.get_or_init(|| {
        let world = World::new(3);
        let session = world.open(&Options::new().memory_budget(1 << 20)).unwrap();
        let users = Users::open(&session.db).unwrap();
        let role = || vec![Role { kind: RoleKind::Root, database: None }];
        for name in ["ada", "a,b=c"] {
            users.create(name, "lovelace", role()).unwrap();
        }
        (users, session, world)
    });
    users
}

/// Reads a client's first message, and the one that follows. `NONCE` in it becomes the nonce that
/// the server has sent.
pub(super) fn body(bytes: &[u8]) {
    let Some((first, second)) = split(bytes) else { return };
    let (mut conversation, answer) = match users().begin_scram("SCRAM-SHA-256", first) {
        Ok(begun) => begun,
        Err(refused) => return note(refused),
    };
    let answer = String::from_utf8(answer).expect("an answer is text");
    let nonce = answer.strip_prefix("r=").and_then(|rest| rest.split(',').next());
    let nonce = nonce.expect("an answer begins with the nonce");
    assert!(answer.contains(",s=") && answer.contains(",i=15000"), "{answer}");
    let second = match str::from_utf8(second) {
        Ok(text) => text.replace("NONCE", nonce).into_bytes(),
        Err(_) => second.to_vec(),
    };
    let is_refused = |conversation: &mut Conversation, message: &[u8]| {
        let refused = conversation.step(message).expect_err("nobody knows the password");
        assert!(conversation.user().is_none(), "nobody is known");
        note(refused);
    };
    assert!(conversation.user().is_none(), "nobody is known yet");
    is_refused(&mut conversation, &second);
    is_refused(&mut conversation, &second);
    is_refused(&mut conversation, b"");
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let proof = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let last = format!("c=biws,r=NONCE,p={proof}");
    let firsts =
        ["n,,n=ada,r=abc", "y,,n=eve,r=abc,x=y", "n,a=ada,n=ada,r=abc", "n,,n=a=2Cb=3Dc,r=!~"];
    let mut seeds: Vec<_> =
        firsts.iter().map(|first| join(first.as_bytes(), last.as_bytes())).collect();
    seeds.push(join(b"n,,n=ada,r=abc", b"c=biws,r=NONCE,m=x,p=AAAA"));
    seeds.push(join(b"n,,n=ada,r=abc", b""));
    seeds
}
