// FerretDB with SQLite: `ferretdb ADDRESS FOLDER`, until a signal.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("expected an address and a folder")
	}
	level := &slog.HandlerOptions{Level: slog.LevelError}
	served, err := ferretdb.New(&ferretdb.Config{
		Listener: ferretdb.ListenerConfig{TCP: os.Args[1]},
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, level)),
		Handler:  "sqlite",
		// As much as the other servers promise: a commit survives the process.
		SQLiteURL: "file:" + os.Args[2] + "/?_pragma=synchronous(normal)",
	})
	if err != nil {
		log.Fatal(err)
	}
	stop, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err := served.Run(stop); err != nil {
		log.Fatal(err)
	}
}
