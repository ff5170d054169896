//! Routes: which requests there are, what they need, and what answers them.

use super::asked::RoutedRequest;
use super::body::Takes;
use super::response::{JSON, Response};
use super::target::RequestTarget;
use crate::access::Need;
use crate::command::{Client, Service};
use crate::failure::{Code, Failure, Outcome};

/// What answers a request.
pub(super) type Answer =
    for<'a> fn(&'a Service, &'a mut Client, &RoutedRequest<'_>) -> Outcome<Response<'a>>;

/// A method and a path, and what they mean.
pub(super) struct Route {
    pub(super) method: &'static str,
    /// The path. A part in braces stands for any segment that is not empty.
    pub(super) path: &'static str,
    /// What it needs on the database `{db}`; without one, of the server.
    pub(super) need: Need,
    /// What it does, in a sentence.
    pub(super) help: &'static str,
    pub(super) answer: Answer,
    /// The parameters that its query may have.
    pub(super) parameters: &'static [Parameter],
    /// The types of its body, the usual one first. Any type is taken if nothing depends on it.
    pub(super) bodies: &'static [&'static str],
    /// How its body is taken.
    pub(super) takes: Takes,
    /// The type of what it returns.
    pub(super) returns: &'static str,
    /// The statuses of success.
    pub(super) statuses: &'static [u16],
}

/// A parameter of a query; `*` stands for any.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) form: Form,
    /// What it is, in a sentence.
    pub(super) help: &'static str,
}

/// What a parameter may be.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Text,
    /// A document in Extended JSON.
    Json,
    /// A whole number, within these.
    Number(i64, i64),
    Flag,
    OneOf(&'static [&'static str]),
}

impl Parameter {
    pub(super) const fn new(name: &'static str, form: Form, help: &'static str) -> Self {
        Self { name, form, help }
    }
}

impl Route {
    /// Declares a route that takes no body, and returns a document.
    pub(super) const fn new(
        method: &'static str,
        path: &'static str,
        need: Need,
        answer: Answer,
        help: &'static str,
    ) -> Self {
        let (parameters, bodies, statuses) = (&[], &[], &[200]);
        let (takes, returns) = (Takes::Nothing, JSON);
        Self { method, path, need, help, answer, parameters, bodies, takes, returns, statuses }
    }

    pub(super) const fn parameters(mut self, parameters: &'static [Parameter]) -> Self {
        self.parameters = parameters;
        self
    }

    pub(super) const fn takes(mut self, takes: Takes, bodies: &'static [&'static str]) -> Self {
        (self.takes, self.bodies) = (takes, bodies);
        self
    }

    pub(super) const fn returns(mut self, statuses: &'static [u16], kind: &'static str) -> Self {
        (self.statuses, self.returns) = (statuses, kind);
        self
    }

    /// Returns whether a path is of this route.
    pub(super) fn fits(&self, target: &RequestTarget) -> bool {
        let mut parts = self.parts();
        let mut segments = target.segments.iter();
        let fit = segments.all(|segment| {
            let Some(part) = parts.next() else { return false };
            if is_variable(part) { !segment.is_empty() } else { part == segment }
        });
        fit && parts.next().is_none()
    }

    /// Returns the segment of a path at the part of this name.
    pub(super) fn segment<'t>(&self, part: &str, target: &'t RequestTarget) -> Option<&'t str> {
        let at = self.parts().position(|other| other == part)?;
        target.segments.get(at).map(String::as_str)
    }

    /// Returns the names in the path: `{db}` and the like.
    pub(super) fn variables(&self) -> impl Iterator<Item = &'static str> {
        self.parts().filter(|part| is_variable(part))
    }

    fn parts(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.path.strip_prefix('/').unwrap_or(self.path).split('/')
    }

    /// Refuses a request of a client that may not do this, and one to a server that stops.
    pub(super) fn check(
        &self,
        service: &Service,
        client: &Client,
        target: &RequestTarget,
    ) -> Outcome {
        if self.need == Need::Nothing {
            return Ok(());
        }
        service.check_open()?;
        let database = self.segment("{db}", target).unwrap_or("admin");
        let name = format!("{} {}", self.method, self.path);
        service.check_access(client, self.need, database, &name)
    }

    /// Refuses parameters that it does not know.
    pub(super) fn check_parameters(&self, target: &RequestTarget) -> Outcome {
        let refuse = |text: String| Err(Failure::new(Code::BadValue, text));
        if self.parameters.iter().any(|parameter| parameter.name == "*") {
            return Ok(());
        }
        for (at, (name, _)) in target.parameters.iter().enumerate() {
            let mut known = self.parameters.iter().map(|parameter| parameter.name);
            if !known.any(|known| known == name) {
                let known: Vec<_> = self.parameters.iter().map(|known| known.name).collect();
                return refuse(match known.join(", ") {
                    known if known.is_empty() => format!("expected no parameters, found {name:?}"),
                    known => format!("expected the parameters {known}, found {name:?}"),
                });
            }
            if target.parameters[..at].iter().any(|(other, _)| other == name) {
                return refuse(format!("the parameter {name} comes twice"));
            }
        }
        Ok(())
    }
}

fn is_variable(part: &str) -> bool {
    part.starts_with('{')
}
