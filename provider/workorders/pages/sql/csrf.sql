-- name: form_key
SELECT form_key FROM workorders.pages_secrets;
