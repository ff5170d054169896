//! The tree of an expression.

use super::call::Function;
use flagstone::Value;

/// An expression.
#[derive(Clone)]
pub(crate) enum Node {
    Literal(Value),
    /// A field of a variable; the whole variable without names.
    Path(Variable, Box<[Box<str>]>),
    Object(Vec<(Box<str>, Node)>),
    Array(Vec<Node>, Box<str>),
    Call(Box<CallNode>),
    All(Vec<Node>),
    Any(Vec<Node>),
    /// A condition and the two results.
    Choice(Box<[Node; 3]>),
    /// The first that is not null.
    IfNull(Vec<Node>),
    Switch(Box<SwitchNode>),
    /// The values of new variables, and what is computed with them.
    Let(Box<(Vec<Node>, Node)>),
    Map(Box<ListNode>),
    Filter(Box<ListNode>),
    Reduce(Box<ListNode>),
    /// An operator, and what counts if a conversion fails.
    OrOnError(Box<(CallNode, Node)>),
}

/// A variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variable {
    Root,
    Now,
    /// Nothing at all.
    Remove,
    /// The variable `index` of the scope `up` scopes outside of the innermost one.
    Bound {
        up: usize,
        index: usize,
    },
    /// A variable that a stage has defined around the pipeline.
    Outer(usize),
}

/// An operator that needs the values of all its arguments.
#[derive(Clone)]
pub(crate) struct CallNode {
    pub(crate) function: Function,
    /// `None` for an argument that was not given.
    pub(crate) args: Vec<Option<Node>>,
    /// A missing value counts as null.
    pub(crate) is_missing_null: bool,
    pub(crate) place: Box<str>,
}

#[derive(Clone)]
pub(crate) struct SwitchNode {
    pub(crate) branches: Vec<(Node, Node)>,
    pub(crate) default: Option<Node>,
    pub(crate) place: Box<str>,
}

/// An operator that evaluates an expression for each item of a list, in a scope of its own.
#[derive(Clone)]
pub(crate) struct ListNode {
    pub(crate) input: Node,
    pub(crate) body: Node,
    /// The first value of a reduction, or the limit of a filter.
    pub(crate) extra: Option<Node>,
    pub(crate) place: Box<str>,
}

impl Node {
    /// Calls `found` with the first name of each path into the row; with `None` for the whole row.
    pub(crate) fn each_field<'n>(&'n self, found: &mut dyn FnMut(Option<&'n str>)) {
        match self {
            Self::Path(Variable::Root, names) => found(names.first().map(|name| &**name)),
            Self::Literal(_) | Self::Path(..) => {}
            Self::Object(fields) => fields.iter().for_each(|(_, node)| node.each_field(found)),
            Self::Array(nodes, _) | Self::All(nodes) | Self::Any(nodes) | Self::IfNull(nodes) => {
                nodes.iter().for_each(|node| node.each_field(found));
            }
            Self::Call(call) => {
                call.args.iter().flatten().for_each(|node| node.each_field(found));
            }
            Self::Choice(nodes) => nodes.iter().for_each(|node| node.each_field(found)),
            Self::Switch(switch) => {
                for (case, then) in &switch.branches {
                    case.each_field(found);
                    then.each_field(found);
                }
                switch.default.iter().for_each(|node| node.each_field(found));
            }
            Self::Let(parts) => {
                parts.0.iter().for_each(|node| node.each_field(found));
                parts.1.each_field(found);
            }
            Self::Map(list) | Self::Filter(list) | Self::Reduce(list) => {
                list.input.each_field(found);
                list.body.each_field(found);
                list.extra.iter().for_each(|node| node.each_field(found));
            }
            Self::OrOnError(both) => {
                both.0.args.iter().flatten().for_each(|node| node.each_field(found));
                both.1.each_field(found);
            }
        }
    }
}
