"""What a store keeps and for whom; what nobody needs is dropped, detached or given up."""
