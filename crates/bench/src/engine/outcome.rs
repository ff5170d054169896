//! The results of calls of engines.

/// The error of any engine.
pub type EngineError = Box<dyn std::error::Error + Send + Sync>;

/// The result of a call of an engine.
pub type Outcome<T> = Result<T, EngineError>;
