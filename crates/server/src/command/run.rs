//! One run of a command: what it was given, and where its reply goes.

use super::args::Args;
use super::id::Incoming;
use super::name::Namespace;
use super::service::{Client, Service};
use crate::bson::{BsonWriter, elements, kind};
use crate::failure::{Code, Failure, Outcome};
use crate::wire::Sequence;
use flagstone::{Collection, Document};

/// The lists of statements, whose documents are read one by one.
const LISTS: &[&str] = &["documents", "updates", "deletes"];

/// The most statements of one command.
pub(crate) const STATEMENTS_MAX: usize = 100_000;

/// A command as it came: its fields, and its statements as BSON.
pub(crate) struct Command<'a> {
    pub(crate) name: &'a str,
    pub(crate) database: String,
    /// All fields but the lists.
    pub(crate) body: Document,
    lists: Vec<(&'a str, Vec<&'a [u8]>)>,
}

impl<'a> Command<'a> {
    /// Parses a command. `database` is that of an old message; others have a field `$db`.
    pub(crate) fn parse(
        bson: &'a [u8],
        sequences: Vec<Sequence<'a>>,
        database: Option<&str>,
        incoming: &mut Incoming,
    ) -> Outcome<Self> {
        let (mut name, mut without, mut lists) = (None, Vec::new(), Vec::new());
        for element in elements(bson)? {
            let element = element?;
            name.get_or_insert(element.name);
            if element.kind == kind::ARRAY && LISTS.contains(&element.name) {
                let mut documents = Vec::new();
                for item in elements(element.value)? {
                    let item = item?;
                    if item.kind != kind::DOCUMENT {
                        let text = format!("{}.{}: expected a document", element.name, item.name);
                        return Err(Failure::new(Code::TypeMismatch, text));
                    }
                    documents.push(item.value);
                }
                lists.push((element.name, documents));
                without.push(element.range);
            }
        }
        let Some(name) = name else {
            return Err(Failure::new(Code::FailedToParse, "a command has no field"));
        };
        for sequence in sequences {
            if lists.iter().any(|(name, _)| *name == sequence.name) {
                let text = format!("{} comes in the command and beside it", sequence.name);
                return Err(Failure::new(Code::FailedToParse, text));
            }
            lists.push((sequence.name, sequence.documents.collect()));
        }
        let body = incoming.any_without(bson, &without)?;
        let of_field = body.root().get("$db")?.and_then(|name| name.as_str().map(str::to_owned));
        let Some(database) = of_field.or_else(|| database.map(str::to_owned)) else {
            return Err(Failure::new(Code::IDLFailedToParse, "a command without the field $db"));
        };
        super::name::check_database(&database)?;
        Ok(Self { name, database, body, lists })
    }
}

/// What runs: the command, the client that sent it, and the reply.
pub(crate) struct Run<'r, 'o> {
    pub(crate) service: &'r Service,
    pub(crate) client: &'r mut Client,
    pub(crate) command: &'r Command<'r>,
    pub(crate) incoming: &'r mut Incoming,
    pub(crate) reply: BsonWriter<'o>,
}

impl<'r> Run<'r, '_> {
    /// Returns the arguments.
    pub(crate) fn args(&self) -> Args<'r> {
        Args::new(self.command.body.root(), self.command.name)
    }

    /// Returns the collection that the first field names.
    pub(crate) fn namespace(&self) -> Outcome<Namespace> {
        let name = self.args().required_text(self.command.name)?;
        Namespace::new(&self.command.database, name)
    }

    /// Returns a collection if there is one.
    pub(crate) fn existing(&self, namespace: &Namespace) -> Outcome<Option<Collection>> {
        Ok(self.service.db.space(&namespace.keyspace()).existing().collection()?)
    }

    /// Returns a collection that must be there.
    pub(crate) fn required(&self, namespace: &Namespace) -> Outcome<Collection> {
        self.existing(namespace)?.ok_or_else(|| {
            Failure::new(Code::NamespaceNotFound, format!("ns does not exist: {namespace}"))
        })
    }

    /// Returns a collection, and creates it if there is none.
    pub(crate) fn created(&self, namespace: &Namespace) -> Outcome<Collection> {
        Ok(self.service.db.collection(&namespace.keyspace())?)
    }

    /// Returns the statements of this name.
    pub(crate) fn statements(&self, name: &str) -> Outcome<&'r [&'r [u8]]> {
        let found = self.command.lists.iter().find(|(list, _)| *list == name);
        let Some((_, statements)) = found else {
            let text = format!("BSON field '{}.{name}' is missing", self.command.name);
            return Err(Failure::new(Code::IDLFailedToParse, text));
        };
        if statements.is_empty() || statements.len() > STATEMENTS_MAX {
            let text = format!(
                "{name}: expected 1 to {STATEMENTS_MAX} documents, found {}",
                statements.len()
            );
            return Err(Failure::new(Code::InvalidLength, text));
        }
        Ok(statements)
    }

    /// Returns the name of the user that the client is, if there are users.
    pub(crate) fn user(&self) -> Option<String> {
        self.client.user.as_ref().map(|user| user.name.clone())
    }
}
