//go:build !js

package safetensors

import (
	"context"
	"net/http"
)

func fetch(ctx context.Context, url, byteRange string, _ bool) (*response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if byteRange != "" {
		req.Header.Set("Range", byteRange)
	}
	// Ranges count the bytes of the file, so it must not come compressed.
	req.Header.Set("Accept-Encoding", "identity")
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	return &response{r.StatusCode, r.Header.Get("Content-Range"), r.ContentLength, r.Body}, nil
}
